//! Tests in a guest that `iotoll bench memtype` maps an adapter's BAR with the memory types that it reports.
//!
//! QEMU emulates no caches, so times measured there mean nothing. The kernel's PAT list shows the memory types.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod support;

use bench::{Bytes, MemtypeError, MemtypeSettings, Origin, run_memtype};
use lab::{Arch, kernel::Series};
use std::{collections::BTreeSet, fs, path::PathBuf};
use support::{Guest, GuestKernel, cache};

/// QEMU's ivshmem device, whose BAR 2 is memory.
const ADAPTER: &str = "/sys/bus/pci/devices/0000:00:04.0";
const TYPES: &str = "/sys/kernel/debug/x86/pat_memtype_list";

/// The memory types with which the kernel currently maps the BAR.
fn mapped_types() -> BTreeSet<String> {
    let resource = fs::read_to_string(format!("{ADAPTER}/resource")).unwrap();
    let first =
        resource.lines().nth(2).unwrap().split(' ').next().unwrap().trim_start_matches("0x").to_owned();
    let list = fs::read_to_string(TYPES).unwrap();
    let bar_lines = list.lines().filter(|line| line.contains(&first));
    bar_lines.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

/// Measures the BAR through the sysfs file `name`, and returns the memory types seen meanwhile.
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
    let benchmark = run_memtype(settings, origin, &mut |_, _| seen.extend(mapped_types()))?;
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
fn a_bar_is_mapped_with_the_reported_memory_types() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    let guest = Guest {
        modules: &[],
        programs: &[],
        before: "busybox mount -t debugfs debugfs /sys/kernel/debug\n".to_owned(),
        modes: &["sysfs"],
        after: "",
        devices: "-object memory-backend-ram,size=1M,share=on,id=shared -device ivshmem-plain,memdev=shared,addr=4",
        command_line: "",
    };
    if let Some(console) = guest.run(&cache, &kernel) {
        assert!(console.contains("bar: all as expected"), "{console}");
    }
}
