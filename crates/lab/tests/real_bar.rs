//! An adapter's memory in a guest: it is measured, and has the types that the measurement says.
//!
//! The emulator knows no caches, so that times in there say nothing; the kernel's list of types does.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use bench::{Bytes, MemtypeError, MemtypeSettings, Origin, run_memtype};
use lab::{
    Arch,
    kernel::{Kernel, KernelChoice, Series},
};
use std::{collections::BTreeSet, fs, path::PathBuf};
use support::{Guest, cache, skip};

/// Memory that several guests could share: BAR 2 of the device.
const ADAPTER: &str = "/sys/bus/pci/devices/0000:00:04.0";
const TYPES: &str = "/sys/kernel/debug/x86/pat_memtype_list";

/// What the kernel says of the BAR's types while it is mapped.
fn types() -> BTreeSet<String> {
    let resource = fs::read_to_string(format!("{ADAPTER}/resource")).unwrap();
    let first =
        resource.lines().nth(2).unwrap().split(' ').next().unwrap().trim_start_matches("0x").to_owned();
    let list = fs::read_to_string(TYPES).unwrap();
    let of_bar = list.lines().filter(|line| line.contains(&first));
    of_bar.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

fn measure(name: &str, bar_stores: bool) -> Result<BTreeSet<String>, MemtypeError> {
    let origin = Origin { made_by: "test".to_owned(), command: Vec::new(), date: "2000-01-01".to_owned() };
    let settings = MemtypeSettings {
        bytes: vec![Bytes(64 << 10)],
        bars: vec![PathBuf::from(format!("{ADAPTER}/{name}"))],
        bar_stores,
        rounds: 1,
        round_ms: 1,
        ..MemtypeSettings::default()
    };
    let mut seen = BTreeSet::new();
    let benchmark = run_memtype(settings, origin, &mut |_, _| seen.extend(types()))?;
    assert_eq!(benchmark.areas.len(), 2);
    let rows = benchmark.areas[1].rows.len();
    assert_eq!(rows, if bar_stores { 5 } else { 3 }, "{:?}", benchmark.areas[1]);
    Ok(seen)
}

#[test]
#[ignore = "only in a guest that has the device"]
fn in_the_guest() {
    assert!(measure("resource2", false).unwrap_err().to_string().contains("adapter's memory"));
    fs::write(format!("{ADAPTER}/enable"), "1").unwrap();
    for (name, kind) in [("resource2", "uncached-minus"), ("resource2_wc", "write-combining")] {
        for stores in [false, true] {
            let types = measure(name, stores).unwrap();
            assert!(types.len() == 1 && types.contains(kind), "{name}: {types:?}");
        }
    }
    println!("bar: all as expected");
}

#[test]
fn an_adapters_memory_has_the_types_that_are_told() {
    let Some(cache) = cache() else { return };
    let choice = KernelChoice { arch: Arch::X86, series: Series::V6_1 };
    let kernel = match Kernel::newest(&cache, choice) {
        Ok(kernel) => kernel,
        Err(why) => return skip(&why.to_string()),
    };
    let guest = Guest {
        modules: &[],
        programs: &[],
        before: "busybox mount -t debugfs debugfs /sys/kernel/debug\n".to_owned(),
        ways: &["sysfs"],
        after: "",
        devices: "-object memory-backend-ram,size=1M,share=on,id=shared -device ivshmem-plain,memdev=shared,addr=4",
        command_line: "",
    };
    if let Some(console) = guest.run(&cache, &kernel) {
        assert!(console.contains("bar: all as expected"), "{console}");
    }
}
