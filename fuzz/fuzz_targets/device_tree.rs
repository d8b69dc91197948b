//! Runs `iotoll_fuzz::device_tree` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::device_tree(data));
