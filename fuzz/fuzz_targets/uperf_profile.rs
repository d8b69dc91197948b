//! Runs `iotoll_fuzz::uperf_profile` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::uperf_profile(data));
