//! Runs `iotoll_fuzz::version_cpuinfo` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::version_cpuinfo(data));
