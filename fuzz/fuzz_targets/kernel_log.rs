//! Runs `iotoll_fuzz::kernel_log` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::kernel_log(data));
