//! Real IOMMUs: an adapter in a guest does DMA through VFIO and iommufd, and is kept from what is not mapped.
//!
//! This program goes into the guest itself, with the libraries that it was linked with, and there runs the test that is ignored
//! elsewhere. The kernels are those of `iotoll lab fetch`, and for iommufd, which Debian's lack, what
//! `kernel/fetch_ubuntu.sh` put into the folder `ubuntu` of the same cache.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../dma/examples/edu.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod edu;

#[path = "support/mod.rs"]
mod support;

use lab::{
    Arch,
    kernel::{Cache, Kernel, KernelChoice, Series},
};
use std::env;
use support::{Guest, WAY, cache, skip, ubuntu_kernel};

/// Where the educational device is.
const ADAPTER: &str = "0000:00:04.0";

#[test]
#[ignore = "only in a guest that has the device"]
fn in_the_guest() {
    edu::run(ADAPTER, &env::var(WAY).unwrap()).unwrap();
}

#[test]
fn an_adapter_does_dma_through_vfio() {
    let Some(cache) = cache() else { return };
    let choice = KernelChoice { arch: Arch::X86, series: Series::V6_1 };
    match Kernel::newest(&cache, choice) {
        Ok(kernel) => check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1"], &["vfio"]),
        Err(why) => skip(&why.to_string()),
    }
}

#[test]
fn an_adapter_does_dma_through_iommufd_and_vfio_of_a_newer_kernel() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = ubuntu_kernel(&cache, "iommufd") else { return };
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1", "iommufd"], &["vfio", "iommufd"]);
}

fn check(cache: &Cache, kernel: &Kernel, modules: &[&str], ways: &[&str]) {
    let guest = Guest {
        modules,
        programs: &[],
        before: format!(
            "echo vfio-pci > /sys/bus/pci/devices/{ADAPTER}/driver_override\n\
             echo {ADAPTER} > /sys/bus/pci/drivers_probe\n"
        ),
        ways,
        after: "busybox dmesg | busybox grep DMAR\n",
        devices: "-device intel-iommu,intremap=on -device edu,addr=4",
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(cache, kernel) else { return };
    for way in ways {
        assert!(console.contains(&format!("edu: {way}: all as expected")), "{way}: {console}");
    }
    // The kernel's own word for it that the IOMMU stood in the way, of a write to what was unmapped.
    assert!(console.contains("DMAR: [DMA Write"), "{console}");
}
