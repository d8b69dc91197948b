//! Runs `iotoll_fuzz::rendered` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::rendered(data));
