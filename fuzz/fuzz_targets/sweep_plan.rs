//! Runs `iotoll_fuzz::sweep_plan` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::sweep_plan(data));
