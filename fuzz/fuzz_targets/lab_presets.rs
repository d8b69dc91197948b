//! Runs `iotoll_fuzz::lab_presets` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::lab_presets(data));
