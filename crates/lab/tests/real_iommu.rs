//! Tests with an emulated IOMMU: an adapter in a guest does DMA through VFIO and iommufd, and can't reach unmapped memory.
//!
//! This test program itself is copied into the guest, with its shared libraries, and runs its ignored test there. The
//! kernels are those of `iotoll lab fetch`. Debian's kernels lack iommufd, so that test uses the kernel that
//! `kernel/fetch_ubuntu.sh` downloads to the folder `ubuntu` of the same cache.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../dma/examples/edu.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod edu;

#[path = "../../dma/examples/vfio.rs"]
#[allow(dead_code, reason = "an example, whose main is not called here")]
mod vfio;

#[path = "support/mod.rs"]
mod support;

use lab::{
    Arch,
    kernel::{Cache, Kernel, Series},
};
use std::env;
use support::{Guest, GuestKernel, MODE, cache};

/// PCI address of QEMU's educational device (edu).
const ADAPTER: &str = "0000:00:04.0";

#[test]
#[ignore = "only in a guest that has the device"]
fn in_the_guest() {
    let mode = env::var(MODE).unwrap();
    edu::run(ADAPTER, &mode).unwrap();
    vfio::map(ADAPTER, mode.parse().unwrap()).unwrap();
}

#[test]
fn an_adapter_does_dma_through_vfio() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1"], &["vfio"]);
}

#[test]
fn an_adapter_does_dma_through_iommufd_and_vfio_of_a_newer_kernel() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Ubuntu("ubuntu").find(&cache, Arch::X86) else { return };
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1", "iommufd"], &["vfio", "iommufd"]);
}

/// Boots a kernel and runs the test once per mode.
fn check(cache: &Cache, kernel: &Kernel, modules: &[&str], modes: &[&str]) {
    let guest = Guest {
        modules,
        programs: &[],
        before: format!(
            "echo vfio-pci > /sys/bus/pci/devices/{ADAPTER}/driver_override\n\
             echo {ADAPTER} > /sys/bus/pci/drivers_probe\n"
        ),
        modes,
        after: "busybox dmesg | busybox grep DMAR\n",
        devices: "-device intel-iommu,intremap=on -device edu,addr=4",
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(cache, kernel) else { return };
    for mode in modes {
        assert!(console.contains(&format!("edu: {mode}: all as expected")), "{mode}: {console}");
    }
    assert_eq!(console.matches("mapped: ").count(), modes.len(), "{console}");
    // The kernel reports that the IOMMU blocked the write to unmapped memory.
    assert!(console.contains("DMAR: [DMA Write"), "{console}");
}
