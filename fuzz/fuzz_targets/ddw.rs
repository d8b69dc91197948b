//! Runs `iotoll_fuzz::ddw` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::ddw(data));
