//! Runs `iotoll_fuzz::lab_module` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::lab_module(data));
