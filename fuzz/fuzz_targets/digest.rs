//! Runs `iotoll_fuzz::digest` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::digest(data));
