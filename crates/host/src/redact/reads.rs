//! The files that an inspection reads and a capture holds: one table, which is also in the manual page.
//!
//! Test `redact` compares it with what is read of every committed capture.

/// What a file holds, as far as redaction is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The kernel's command line.
    CommandLine,
    /// The boot loader's configuration, of which only its lines with kernel options are kept.
    BootLoader,
    /// A kernel log.
    Log,
    /// lspci's text.
    Listing,
    /// `uname -a`.
    Uname,
    /// The host's name, and nothing else.
    HostName,
    /// Facts of a POWER partition.
    Partition,
    /// A property of the device tree: text or numbers.
    Property,
    /// A PCI configuration space.
    Config,
    /// A table or a single value, or the names in a folder.
    Text,
    /// What is the same on every host.
    Public,
}

/// A row: files by their path, and what they are.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// Path from the root; `*` stands for anything but a slash, `**` at the end for anything or nothing.
    pub pattern: &'static str,
    /// What it holds.
    pub content: Content,
    /// What is read in it, for users.
    pub what: &'static str,
}

/// A row of the table.
const fn row(pattern: &'static str, content: Content, what: &'static str) -> Read {
    Read { pattern, content, what }
}

/// What is read; the first row that fits counts.
pub const READS: &[Read] = &[
    row("proc/cmdline", Content::CommandLine, "kernel command line"),
    row("dev/kmsg", Content::Log, "kernel log (stored as var/log/dmesg)"),
    row("var/log/*", Content::Log, "kernel log: dmesg, dmesg.log, kern.log, boot.msg; of captures only"),
    row("sos_commands/kernel/uname_-a", Content::Uname, "kernel version, in sosreports"),
    row("sos_commands/kernel/*", Content::Log, "kernel log, in sosreports"),
    row("sos_commands/general/*", Content::Log, "kernel log, in sosreports"),
    row("sos_commands/logs/*", Content::Log, "kernel log, in sosreports"),
    row("dmesg", Content::Log, "kernel log, of captures only"),
    row("uname", Content::Uname, "kernel version, of captures only"),
    row("etc/hostname", Content::HostName, "the host's name, by which captures of one host are known"),
    row("proc/sys/kernel/hostname", Content::HostName, "the host's name"),
    row("sos_commands/host/hostname", Content::HostName, "the host's name, in sosreports"),
    row("hostname", Content::HostName, "the host's name, of captures only"),
    row("sos_commands/pci", Content::Text, "names of outputs of lspci, in sosreports"),
    row("sos_commands/hardware", Content::Text, "names of outputs of lspci, in sosreports"),
    row("sos_commands/pci/*", Content::Listing, "lspci, in sosreports"),
    row("sos_commands/hardware/*", Content::Listing, "lspci, in sosreports"),
    row("lspci", Content::Listing, "lspci, of captures only"),
    row("lspci.txt", Content::Listing, "lspci, of captures only"),
    row("lspci_-mm", Content::Listing, "lspci in its machine-readable formats, of captures only"),
    row("lspci_-tv", Content::Listing, "the tree of lspci, of captures only"),
    row("proc/version", Content::Log, "kernel version"),
    row("proc/cpuinfo", Content::Text, "processors"),
    row("proc/meminfo", Content::Text, "memory"),
    row("proc/iomem", Content::Text, "map of physical addresses"),
    row("proc/mtrr", Content::Text, "memory type registers"),
    row("proc/interrupts", Content::Text, "interrupt counts"),
    row("proc/irq/*/*", Content::Text, "affinity of interrupts"),
    row("proc/bus/pci/devices", Content::Text, "PCI functions, in sosreports"),
    row("proc/bus/pci/*/*", Content::Config, "PCI configuration space, in sosreports"),
    row("proc/powerpc/lparcfg", Content::Partition, "POWER partition"),
    row("proc/ppc64/lparcfg", Content::Partition, "POWER partition"),
    row(
        "proc/device-tree/**",
        Content::Property,
        "model, firmware, memory and DMA windows, on POWER and Arm",
    ),
    row(
        "sys/firmware/devicetree/base/**",
        Content::Property,
        "model, firmware, memory and DMA windows, on POWER and Arm",
    ),
    row("proc/xen/capabilities", Content::Text, "Xen"),
    row("sys/hypervisor/type", Content::Text, "Xen"),
    row("etc/default/grub", Content::BootLoader, "kernel options for the next boot"),
    row("etc/kernel/cmdline", Content::CommandLine, "kernel options for the next boot"),
    row("named-options", Content::CommandLine, "kernel options that a text names, of texts only"),
    row("etc/os-release", Content::Text, "distribution"),
    row("etc/redhat-release", Content::Text, "distribution"),
    row("etc/SuSE-release", Content::Text, "distribution"),
    row("etc/debian_version", Content::Text, "distribution"),
    row("usr/share/hwdata/pci.ids", Content::Public, "names of PCI devices"),
    row("usr/share/misc/pci.ids", Content::Public, "names of PCI devices"),
    row("sys/class", Content::Text, "names of device classes, of captures only"),
    row("sys/class/dmi/id/product_name", Content::Text, "the machine's model"),
    row("sys/class/dmi/id/sys_vendor", Content::Text, "the machine's maker"),
    row(
        "sys/class/*",
        Content::Text,
        "names of network interfaces, disks, InfiniBand devices, hosts of disks, graphics cards, IOMMUs",
    ),
    row("sys/class/infiniband/*/**", Content::Text, "RDMA devices: ports, their state and rate"),
    row(
        "rdma_resource",
        Content::Text,
        "queue pairs and registrations of RDMA devices; no file of a live host, whose kernel is asked (netlink)",
    ),
    row("sys/bus/pci/devices", Content::Text, "PCI functions"),
    row("sys/bus/pci/devices/*", Content::Text, "names of a PCI function's attributes"),
    row("sys/bus/pci/devices/*/config", Content::Config, "PCI configuration space"),
    row("sys/bus/pci/devices/*/of_node/**", Content::Property, "location code and DMA windows, on POWER"),
    row(
        "sys/bus/pci/devices/*/**",
        Content::Text,
        "vendor, device, class, link, NUMA node, DMA mask, driver, interrupts, virtual functions",
    ),
    row("sys/bus/pci/slots", Content::Text, "names of slots"),
    row("sys/bus/pci/slots/*/address", Content::Text, "addresses of slots"),
    row("sys/devices/system/node/**", Content::Text, "NUMA nodes: CPUs, memory, distances"),
    row("sys/devices/system/memory", Content::Text, "memory blocks"),
    row("sys/devices/system/memory/block_size_bytes", Content::Text, "size of a memory block"),
    row("sys/kernel/iommu_groups/**", Content::Text, "IOMMU groups: type, devices, reserved regions, name"),
    row("sys/kernel/debug/x86/pat_memtype_list", Content::Text, "memory types that drivers asked for"),
    row("sys/kernel/debug/swiotlb/*", Content::Text, "use of bounce buffers"),
];

/// The row of a path.
pub fn row_of(path: &str) -> Option<&'static Read> {
    READS.iter().find(|row| fits(row.pattern, path))
}

/// What a path holds. A file that no row knows is redacted as a log is, which looks for most.
pub fn content_of(path: &str) -> Content {
    row_of(path).map_or(Content::Log, |row| row.content)
}

/// Whether a path fits a pattern, in which `*` stands for one name and `**` for all that follow.
fn fits(pattern: &str, path: &str) -> bool {
    // Most patterns differ before their first `*`.
    let is_literal = |(byte, _): &(u8, u8)| *byte != b'*';
    if pattern.bytes().zip(path.bytes()).take_while(is_literal).any(|(pattern, path)| pattern != path) {
        return false;
    }
    let (mut names, mut rest) = (pattern.split('/'), path.split('/'));
    loop {
        match (names.next(), rest.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(pattern), Some(name)) if pattern == name => {}
            _ => return false,
        }
    }
}

/// The table for the manual page: a path and what it is on each line.
pub fn manual() -> String {
    let width = READS.iter().map(|row| row.pattern.len()).max().unwrap_or_default() + 1;
    READS.iter().map(|row| format!("  /{:width$} {}\n", row.pattern, row.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert_eq!(content_of("proc/cmdline"), Content::CommandLine);
        assert_eq!(content_of("sys/bus/pci/devices/0000:3b:00.0/config"), Content::Config);
        assert_eq!(content_of("sys/bus/pci/devices/0000:3b:00.0/of_node/ibm,loc-code"), Content::Property);
        assert_eq!(content_of("sys/bus/pci/devices/0000:3b:00.0/msi_irqs/24"), Content::Text);
        assert_eq!(content_of("proc/bus/pci/3b/00.0"), Content::Config);
        assert_eq!(content_of("etc/shadow"), Content::Log);
        assert_eq!(row_of("sys/class/net/eth0").map(|row| row.pattern), None);
        for (at, row) in READS.iter().enumerate() {
            let earlier = READS[..at].iter().find(|earlier| earlier.pattern == row.pattern);
            assert!(earlier.is_none(), "{} stands twice", row.pattern);
        }
    }
}
