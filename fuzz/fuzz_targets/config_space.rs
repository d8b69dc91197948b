//! Runs `iotoll_fuzz::config_space` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::config_space(data));
