//! Runs `iotoll_fuzz::interrupts_numa` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::interrupts_numa(data));
