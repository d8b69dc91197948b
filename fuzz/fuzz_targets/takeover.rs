//! Runs `iotoll_fuzz::takeover` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::takeover(data));
