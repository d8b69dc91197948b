//! Runs `iotoll_fuzz::command_line` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::command_line(data));
