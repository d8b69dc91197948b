//! Tables that come with the program, and that a build may be given others of.

use host::diagnose::Basis;
use host::power::slots::SlotTables;
use host::{Digest, Host, Inspection, Tree, tree::Memory};

/// A digest of toll sheets that an inspection predicts from, or tables of POWER slots.
pub fn digest(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = SlotTables::parse(&text).map_err(|error| error.to_string());
    let Ok(digest) = Digest::parse(&text) else { return };
    let basis = || Basis { tolls: Some(&digest), prices: None, areas: &[] };
    let inspection = Inspection::with_basis(Host::read(&Tree::of_memory(strict_host())), basis());
    let _ = report::inspection(&inspection, 80, report::Style::Plain, report::Length::Full, true);
}

/// One NVMe adapter behind VT-d that waits for each invalidation: predictions are made for it.
fn strict_host() -> Memory {
    let mut memory = Memory::default();
    let device = "sys/devices/pci0000:00/0000:00:03.0";
    memory.file("proc/version", "Linux version 6.1.0-53-amd64");
    memory.file("proc/cmdline", "intel_iommu=on iommu.strict=1");
    memory.file("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
    memory.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
    memory.link(&format!("{device}/driver"), "../../../bus/pci/drivers/nvme");
    memory.link(&format!("{device}/iommu_group"), "../../../kernel/iommu_groups/3");
    memory.file("sys/class/iommu/dmar0/type", "intel");
    memory.file("sys/kernel/iommu_groups/3/type", "DMA\n");
    memory.link(
        "sys/kernel/iommu_groups/3/devices/0000:00:03.0",
        "../../../../devices/pci0000:00/0000:00:03.0",
    );
    for (name, value) in [("vendor", "0x1b36"), ("device", "0x0010"), ("class", "0x010802")] {
        memory.file(&format!("{device}/{name}"), value);
    }
    memory
}
