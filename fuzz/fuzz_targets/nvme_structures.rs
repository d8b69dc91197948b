//! Runs `iotoll_fuzz::nvme_structures` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::nvme_structures(data));
