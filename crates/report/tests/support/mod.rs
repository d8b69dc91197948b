//! Hosts to lay out: captures of real machines, and one made up to be troublesome.

use host::diagnose::Basis;
use host::tree::Memory;
use host::{Digest, Host, Inspection, Tree};
use std::path::Path;
use toll::PriceList;

pub(crate) const CAPTURES: [&str; 5] =
    ["arm-smmu-strict", "ppc-ddw", "ppc-noddw", "x86-no-iommu", "x86-vtd-lazy"];

/// With toll sheets and prices that no new measurement changes.
fn judged(host: Host) -> Inspection {
    let tolls = include_str!("../../../host/tests/tolls/made-up.toml");
    let prices = |text| PriceList::read(text, "made up").unwrap();
    let prices = [
        prices(include_str!("../../../host/tests/prices/x86.toml")),
        prices(include_str!("../../../host/tests/prices/ppc.toml")),
    ];
    Inspection::with_basis(
        host,
        Basis { tolls: Some(&Digest::parse(tolls).unwrap()), prices: Some(&prices), areas: &[] },
    )
}

/// What was seen in a capture.
pub(crate) fn capture(name: &str) -> Inspection {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/captures");
    let tree = Tree::open(&folder.join(format!("{name}.tar.gz"))).unwrap();
    judged(Host::read(&tree))
}

/// A host with `count` strict NVMe controllers below one root port, each in a group of its own; names
/// and log are `hostile`.
pub(crate) fn crowd(count: u32, hostile: &str) -> Inspection {
    let mut files = Memory::default();
    files.file("proc/version", "Linux version 6.8.0-1-amd64 (x@y) #1 SMP x86_64\n");
    files.file("proc/cmdline", format!("quiet iommu.strict=1 {hostile}\n"));
    files.file("proc/meminfo", "MemTotal: 67108864 kB\n");
    files.file("sys/class/dmi/id/product_name", format!("{hostile}\n"));
    files.file("sys/class/iommu/dmar0/name", "dmar0\n");
    files.file(
        "var/log/dmesg",
        format!(
            "[    0.000000] Linux version 6.8.0-1-amd64\n[    0.100000] iommu: Default domain type: Translated\n\
             [    0.100001] iommu: DMA domain TLB invalidation policy: strict mode\n\
             [    9.000000] {hostile} 0000:01:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 1 (slots)\n"
        ),
    );
    for number in 0..count {
        controller(&mut files, number, hostile);
    }
    judged(Host::read(&Tree::of_memory(files)))
}

fn controller(files: &mut Memory, number: u32, hostile: &str) {
    let address = format!("0000:{:02x}:{:02x}.0", 1 + number / 32, number % 32);
    let folder = format!("sys/devices/pci0000:00/0000:00:01.0/{address}");
    files.link(&format!("sys/bus/pci/devices/{address}"), &format!("../../../../{folder}"));
    for (name, value) in [
        ("vendor", "0x144d"),
        ("device", "0xa80a"),
        ("class", "0x010802"),
        ("dma_mask_bits", "64"),
        ("numa_node", "0"),
    ] {
        files.file(&format!("{folder}/{name}"), format!("{value}\n"));
    }
    files.file(&format!("{folder}/current_link_speed"), "8.0 GT/s PCIe\n");
    files.file(&format!("{folder}/current_link_width"), "4\n");
    files.file(&format!("{folder}/max_link_speed"), "16.0 GT/s PCIe\n");
    files.file(&format!("{folder}/max_link_width"), "16\n");
    files.link(&format!("{folder}/driver"), "../../../../bus/pci/drivers/nvme");
    files.link(&format!("{folder}/iommu_group"), &format!("../../../../kernel/iommu_groups/{number}"));
    files.file(&format!("sys/kernel/iommu_groups/{number}/type"), "DMA\n");
    files.folder(&format!("sys/kernel/iommu_groups/{number}/devices/{address}"));
    let name = format!("{}{number}", hostile.replace('/', "|"));
    files.link(&format!("sys/class/nvme/{name}"), &format!("../../../{folder}/nvme/{name}"));
}
