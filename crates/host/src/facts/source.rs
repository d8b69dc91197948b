//! Which fact each source tells: what is not known when it can't be read, and whether that may change a verdict.

/// What is known from the files of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source {
    /// Path from the host's root. `*` at the end of a name matches any rest of the name. `**` as the last name matches
    /// the folder and everything below it.
    pattern: &'static str,
    /// What is not known without it.
    pub(super) what: &'static str,
    /// Whether it can change an adapter's DMA path or hide a finding.
    pub(super) is_decisive: bool,
}

/// A source that can change a verdict.
const fn decisive(pattern: &'static str, what: &'static str) -> Source {
    Source { pattern, what, is_decisive: true }
}

/// A source that can't change a verdict.
const fn minor(pattern: &'static str, what: &'static str) -> Source {
    Source { pattern, what, is_decisive: false }
}

const LOG: &str = "what the kernel said at boot and since: faults, windows, bounce buffers that ran out";
const OPTIONS: &str = "the kernel's options: passthrough, strict invalidation, memmap=";
const KERNEL: &str = "the kernel's version, by which its options and defaults are judged";
const CPU: &str = "the CPUs' architecture and maker, which decide what options mean";
const MEMORY_END: &str = "how far memory reaches, and so which DMA masks fall short of it";
const GROUPS: &str = "IOMMU groups and their types: which adapters are translated, and how";
const IOMMUS: &str = "which IOMMUs are in use";
const FUNCTIONS: &str = "which PCI functions there are, and what lspci knows of them";
const WINDOWS: &str = "the partition and its DMA windows, from the device tree";
const INTERRUPTS: &str = "which CPUs the adapters' interrupts go to";
const NODES: &str = "the NUMA nodes";
const NAMES: &str = "names of adapters, by which nothing is judged";

/// The first pattern that matches counts. Files that match none are taken for decisive.
const SOURCES: &[Source] = &[
    decisive("dev/kmsg", LOG),
    decisive("var/log/**", LOG),
    decisive("dmesg", LOG),
    decisive("sos_commands/kernel/dmesg*", LOG),
    decisive("sos_commands/general/dmesg*", LOG),
    decisive("sos_commands/logs/**", LOG),
    decisive("proc/cmdline", OPTIONS),
    decisive("proc/version", KERNEL),
    decisive("uname", KERNEL),
    decisive("sos_commands/kernel/uname*", KERNEL),
    decisive("proc/cpuinfo", CPU),
    decisive("proc/meminfo", MEMORY_END),
    decisive("sys/devices/system/memory/**", MEMORY_END),
    decisive("proc/iomem", "where memory and reserved areas lie"),
    decisive("proc/mtrr", "memory types by the MTRRs"),
    decisive("sys/kernel/debug/x86/pat_memtype_list", "memory types that drivers asked for (PAT)"),
    decisive("sys/kernel/debug/swiotlb/**", "how full the bounce buffers are"),
    decisive("sys/kernel/iommu_groups/**", GROUPS),
    decisive("sys/class/iommu/**", IOMMUS),
    decisive("proc/bus/pci/devices", FUNCTIONS),
    decisive("sos_commands/pci/**", FUNCTIONS),
    decisive("sos_commands/hardware/**", FUNCTIONS),
    decisive("lspci*", FUNCTIONS),
    decisive("proc/powerpc/**", WINDOWS),
    decisive("proc/ppc64/**", WINDOWS),
    decisive("proc/device-tree/**", WINDOWS),
    decisive("sys/firmware/devicetree/**", WINDOWS),
    decisive("proc/interrupts", INTERRUPTS),
    decisive("proc/irq/**", INTERRUPTS),
    decisive("sys/devices/system/node/**", NODES),
    decisive(
        "sys/bus/pci/devices/*/config",
        "configuration space: payload sizes, relaxed ordering, ACS, ATS, error registers",
    ),
    decisive("sys/bus/pci/devices/*/driver", "which driver owns which adapter"),
    decisive("sys/bus/pci/devices/*/iommu_group", GROUPS),
    decisive("sys/bus/pci/devices/*/dma_mask_bits", "DMA masks"),
    decisive("sys/bus/pci/devices/*/consistent_dma_mask_bits", "DMA masks of coherent memory"),
    decisive("sys/bus/pci/devices/*/numa_node", "the NUMA nodes of adapters"),
    decisive("sys/bus/pci/devices/*/current_link*", "speed and width of links"),
    decisive("sys/bus/pci/devices/*/max_link*", "speed and width of links"),
    minor("sys/bus/pci/devices/*/of_node/ibm,loc-code", NAMES),
    decisive("sys/bus/pci/devices/*/of_node/**", WINDOWS),
    decisive("sys/bus/pci/devices/**", "what sysfs says of PCI functions"),
    decisive("sys/devices/pci*/**", "what sysfs says of PCI functions"),
    minor("sys/bus/pci/slots/**", NAMES),
    minor("sys/class/net/**", NAMES),
    minor("sys/class/nvme/**", NAMES),
    minor("sys/class/block/**", NAMES),
    decisive("sys/class/infiniband/*/**", "RDMA devices and their ports"),
    minor("rdma_resource", "how many queue pairs and registrations RDMA devices have"),
    minor("sys/kernel/debug/mlx5/**", "how many queue pairs RDMA devices have"),
    minor("sys/class/infiniband/**", NAMES),
    minor("sys/class/fc_host/**", NAMES),
    minor("sys/class/scsi_host/**", NAMES),
    minor("sys/class/drm/**", NAMES),
    minor("usr/share/**", NAMES),
    minor("sys/class/dmi/**", "maker and model of the machine"),
    minor("etc/default/grub", "kernel options for the next boot"),
    minor("etc/kernel/cmdline", "kernel options for the next boot"),
    minor("etc/hostname", "the host's name"),
    minor("proc/sys/kernel/hostname", "the host's name"),
    minor("etc/**", "the distribution's name"),
];

/// The facts that a file provides; `None` if no pattern matches it.
pub(super) fn find_source(path: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| matches(source.pattern, path))
}

/// Whether a path matches a pattern.
fn matches(pattern: &str, path: &str) -> bool {
    let mut names = path.split('/');
    for wanted in pattern.split('/') {
        let fits = match (wanted, names.next()) {
            ("**", _) => return true,
            (_, None) => false,
            (wanted, Some(name)) => match wanted.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == wanted,
            },
        };
        if !fits {
            return false;
        }
    }
    names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_their_beginnings_and_folders() {
        assert!(matches("proc/cmdline", "proc/cmdline") && !matches("proc/cmdline", "proc/cmdline/x"));
        assert!(
            matches("sys/class/iommu/**", "sys/class/iommu")
                && matches("sys/class/iommu/**", "sys/class/iommu/a/b")
        );
        assert!(matches("a/*/c", "a/b/c") && !matches("a/*/c", "a/b/d") && !matches("a/*/c", "a/c"));
        assert!(matches("a/dmesg*", "a/dmesg_-T") && !matches("a/dmesg*", "a/dmesg/x"));
    }
}
