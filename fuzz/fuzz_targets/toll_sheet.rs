//! Runs `iotoll_fuzz::toll_sheet` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::toll_sheet(data));
