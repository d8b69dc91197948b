//! Runs `iotoll_fuzz::mtrr_pat_iomem` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::mtrr_pat_iomem(data));
