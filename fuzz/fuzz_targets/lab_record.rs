//! Runs `iotoll_fuzz::lab_record` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::lab_record(data));
