//! Runs `iotoll_fuzz::trace` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::trace(data));
