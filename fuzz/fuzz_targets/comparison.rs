//! Runs `iotoll_fuzz::comparison` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::comparison(data));
