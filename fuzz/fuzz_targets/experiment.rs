//! Runs `iotoll_fuzz::experiment` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::experiment(data));
