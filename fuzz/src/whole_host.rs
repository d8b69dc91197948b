//! A whole host out of arbitrary files.

use host::diagnose::DmaPath;
use host::tree::Memory;
use host::{Host, Inspection, Tree};

/// What an inspection asks for, with one bridge, an adapter below it and its virtual function standing
/// for all. A record's first byte chooses from here.
pub const PATHS: [&str; 112] = [
    "proc/version",
    "proc/cmdline",
    "proc/cpuinfo",
    "proc/meminfo",
    "proc/iomem",
    "proc/mtrr",
    "proc/interrupts",
    "proc/irq/24/effective_affinity_list",
    "proc/irq/24/smp_affinity_list",
    "proc/bus/pci/devices",
    "proc/bus/pci/00/01.0",
    "proc/bus/pci/01/00.0",
    "proc/powerpc/lparcfg",
    "proc/ppc64/lparcfg",
    "proc/device-tree",
    "proc/device-tree/model",
    "var/log/dmesg",
    "dmesg",
    "sos_commands/pci/lspci_-nnvv",
    "sos_commands/kernel/uname_-a",
    "lspci",
    "etc/os-release",
    "etc/redhat-release",
    "usr/share/hwdata/pci.ids",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/iommu/dmar0",
    "sys/class/iommu/ivhd0",
    "sys/class/iommu/smmu3.0x9050000",
    "sys/class/iommu/iommu-phb0000",
    "sys/class/net/eth0",
    "sys/class/nvme/nvme0",
    "sys/class/block/nvme0n1",
    "sys/class/drm/card0",
    "sys/bus/pci/slots/1/address",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node0/distance",
    "sys/devices/system/node/node1/cpulist",
    "sys/devices/system/node/node1/distance",
    "sys/devices/system/memory/block_size_bytes",
    "sys/devices/system/memory/memory32/state",
    "sys/kernel/debug/swiotlb/io_tlb_nslabs",
    "sys/kernel/debug/swiotlb/io_tlb_used",
    "sys/kernel/debug/swiotlb/io_tlb_used_hiwater",
    "sys/kernel/debug/x86/pat_memtype_list",
    "sys/kernel/iommu_groups/1/type",
    "sys/kernel/iommu_groups/1/name",
    "sys/kernel/iommu_groups/1/reserved_regions",
    "sys/kernel/iommu_groups/1/devices/0000:01:00.0",
    "sys/kernel/iommu_groups/1/devices/0000:01:00.1",
    "sys/kernel/iommu_groups/2/type",
    "sys/kernel/iommu_groups/2/devices/0000:00:01.0",
    // Links lead here from /sys/bus, as on a real host; without them the functions have no bridge above.
    "sys/bus/pci/devices/0000:00:01.0",
    "sys/bus/pci/devices/0000:01:00.0",
    "sys/bus/pci/devices/0000:01:00.1",
    "sys/devices/pci0000:00/0000:00:01.0/config",
    "sys/devices/pci0000:00/0000:00:01.0/driver",
    "sys/devices/pci0000:00/0000:00:01.0/iommu_group",
    "sys/devices/pci0000:00/0000:00:01.0/current_link_speed",
    "sys/devices/pci0000:00/0000:00:01.0/current_link_width",
    "sys/devices/pci0000:00/0000:00:01.0/max_link_speed",
    "sys/devices/pci0000:00/0000:00:01.0/max_link_width",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/config",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/driver",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/iommu_group",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/vendor",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/device",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/class",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/numa_node",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/local_cpulist",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/dma_mask_bits",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/consistent_dma_mask_bits",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_speed",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/current_link_width",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/max_link_speed",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/max_link_width",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/irq",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/msi_irqs/24",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/sriov_numvfs",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/virtfn0",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/virtio0/features",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/removable",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/devspec",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/of_node",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/config",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/driver",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/iommu_group",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/physfn",
    "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.1/vendor",
    "sys/firmware/devicetree/base/model",
    "sys/firmware/devicetree/base/#address-cells",
    "sys/firmware/devicetree/base/#size-cells",
    "sys/firmware/devicetree/base/memory@0/reg",
    "sys/firmware/devicetree/base/openprom/ibm,fw-vernum_encoded",
    "sys/firmware/devicetree/base/rtas/ibm,hypertas-functions",
    "sys/firmware/devicetree/base/rtas/ibm,lrdr-capacity",
    "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory/ibm,lmb-size",
    "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory/ibm,dynamic-memory",
    "sys/firmware/devicetree/base/ibm,dynamic-reconfiguration-memory/ibm,dynamic-memory-v2",
    "sys/firmware/devicetree/base/ibm,persistent-memory/ibm,pmemory@0/name",
    "sys/firmware/devicetree/base/pci@1/ibm,#dma-address-cells",
    "sys/firmware/devicetree/base/pci@1/ibm,#dma-size-cells",
    "sys/firmware/devicetree/base/pci@1/ibm,dma-window",
    "sys/firmware/devicetree/base/pci@1/ibm,dma-window-saved",
    "sys/firmware/devicetree/base/pci@1/ibm,ddw-applicable",
    "sys/firmware/devicetree/base/pci@1/ibm,ddw-extensions",
    "sys/firmware/devicetree/base/pci@1/linux,direct64-ddr-window-info",
    "sys/firmware/devicetree/base/pci@1/linux,dma64-ddr-window-info",
    "sys/firmware/devicetree/base/pci@1/ethernet@0/ibm,loc-code",
    "sys/firmware/devicetree/base/pci@1/ethernet@0/class-code",
    "sys/firmware/devicetree/base/pci@1/ethernet@0/reg",
];

/// Set in a record's length for a link; the rest is the length of what follows.
const LINK: u16 = 1 << 15;

/// Reads and judges a host. The files come as records of a byte that chooses the path, two for the
/// length, and the content; or, where the input starts with `-- `, as text in which every line
/// `-- path --` or `-- path -> target --` starts a file, so that a host written down by hand will do.
pub fn whole_host(data: &[u8]) {
    let inspection = Inspection::of(Host::read(&Tree::of_memory(host_of(data))));
    assert_eq!(inspection.dma_paths.len(), inspection.host.adapters.len());
    for (adapter, verdict) in inspection.adapters() {
        let told = !verdict.evidence.is_empty() || verdict.reason.is_some();
        assert!(told, "{}: {} out of nothing", adapter.function.address, verdict.dma_path);
        assert!(verdict.dma_path != DmaPath::Unknown || verdict.reason.is_some(), "unknown, and no reason");
        let _ = inspection.host.hops(adapter);
    }
}

/// The files of an input.
pub(crate) fn host_of(data: &[u8]) -> Memory {
    if data.starts_with(b"-- ") { written_down(data) } else { recorded(data) }
}

fn recorded(mut data: &[u8]) -> Memory {
    let mut memory = Memory::default();
    // On a host all functions hang together; only an input that says otherwise tears them apart.
    for (at, below) in [("00:01.0", ""), ("01:00.0", "0000:00:01.0/"), ("01:00.1", "0000:00:01.0/")] {
        let target = format!("../../../devices/pci0000:00/{below}0000:{at}");
        memory.link(&format!("sys/bus/pci/devices/0000:{at}"), &target);
    }
    while let [path, low, high, rest @ ..] = data {
        let length = u16::from_le_bytes([*low, *high]);
        let (content, next) = rest.split_at(usize::from(length & !LINK).min(rest.len()));
        let path = PATHS[usize::from(*path) % PATHS.len()];
        match length & LINK {
            0 => memory.file(path, content),
            _ => memory.link(path, &String::from_utf8_lossy(content)),
        }
        data = next;
    }
    memory
}

fn written_down(data: &[u8]) -> Memory {
    let mut memory = Memory::default();
    let text = String::from_utf8_lossy(data);
    for part in text.split("\n-- ").map(|part| part.trim_start_matches("-- ")) {
        let Some((path, content)) = part.split_once(" --") else { continue };
        let content = content.strip_prefix('\n').unwrap_or(content);
        match (path.split_once(" -> "), path.strip_suffix(" (hex)")) {
            (Some((path, target)), _) => memory.link(path, target),
            (None, Some(path)) => memory.file(path, from_hex(content)),
            (None, None) => memory.file(path, content),
        }
    }
    memory
}

fn from_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter_map(|c| c.to_digit(16)?.try_into().ok()).collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}
