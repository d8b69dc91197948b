//! Runs `iotoll_fuzz::lspci_text` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::lspci_text(data));
