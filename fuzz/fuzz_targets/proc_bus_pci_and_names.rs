//! Runs `iotoll_fuzz::proc_bus_pci_and_names` under libFuzzer.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| iotoll_fuzz::proc_bus_pci_and_names(data));
