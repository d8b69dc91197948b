//! Runs `iotoll_fuzz::mtrr_plan` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::mtrr_plan(data));
