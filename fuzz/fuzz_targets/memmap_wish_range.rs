//! Runs `iotoll_fuzz::memmap_wish_range` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::memmap_wish_range(data));
