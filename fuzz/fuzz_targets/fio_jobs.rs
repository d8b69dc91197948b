//! Runs `iotoll_fuzz::fio_jobs` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::fio_jobs(data));
