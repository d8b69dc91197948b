//! Runs `iotoll_fuzz::price_list` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::price_list(data));
