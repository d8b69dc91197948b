//! Runs `iotoll_fuzz::whole_host` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::whole_host(data));
