//! Runs `iotoll_fuzz::archive` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::archive(data));
