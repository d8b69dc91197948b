//! I/O that adapters completed, as the kernel counts it anyway: reading it costs the host nothing per I/O.

use pci::Bdf;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::ops::AddAssign;
use std::path::Path;

/// What an adapter completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Completed {
    /// Requests of block devices: reads, writes, discards and flushes.
    pub block_requests: u64,
    /// Bytes that those read and wrote.
    pub block_bytes: u64,
    /// Packets that network devices received and sent.
    pub packets: u64,
    /// Their bytes.
    pub packet_bytes: u64,
    /// Interrupts.
    pub interrupts: u64,
}

impl AddAssign for Completed {
    fn add_assign(&mut self, other: Self) {
        let Self { block_requests, block_bytes, packets, packet_bytes, interrupts } = other;
        self.block_requests += block_requests;
        self.block_bytes += block_bytes;
        self.packets += packets;
        self.packet_bytes += packet_bytes;
        self.interrupts += interrupts;
    }
}

impl Completed {
    /// As many times as much, rounded.
    #[must_use]
    pub(crate) fn scaled(self, times: f64) -> Self {
        let scaled = |number: u64| (number as f64 * times).round() as u64;
        Self {
            block_requests: scaled(self.block_requests),
            block_bytes: scaled(self.block_bytes),
            packets: scaled(self.packets),
            packet_bytes: scaled(self.packet_bytes),
            interrupts: scaled(self.interrupts),
        }
    }

    /// The I/O that costs are divided by, and its name: requests of block devices, else packets. `None` if there was neither.
    pub fn io(&self) -> Option<(u64, &'static str)> {
        match (self.block_requests, self.packets) {
            (0, 0) => None,
            (0, packets) => Some((packets, "packet")),
            (requests, _) => Some((requests, "request")),
        }
    }

    /// The I/O of a part, of the kind that all is counted by.
    pub fn io_of_kind(&self, all: &Self) -> u64 {
        if all.block_requests > 0 { self.block_requests } else { self.packets }
    }

    /// What came since an earlier reading. A counter that began anew, as of a device that was bound again, counts from 0.
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        Self {
            block_requests: since(self.block_requests, earlier.block_requests),
            block_bytes: since(self.block_bytes, earlier.block_bytes),
            packets: since(self.packets, earlier.packets),
            packet_bytes: since(self.packet_bytes, earlier.packet_bytes),
            interrupts: since(self.interrupts, earlier.interrupts),
        }
    }
}

/// What each adapter completed since it was found, by PCI address. `root` is `/`, or the root of a copy of `sys` and `proc`. What can't be
/// read is not counted.
pub fn completed(root: &Path) -> BTreeMap<String, Completed> {
    let mut adapters: BTreeMap<String, Completed> = BTreeMap::new();
    for (folder, count) in [("sys/block", block as fn(&Path) -> Completed), ("sys/class/net", network)] {
        for device in entries(&root.join(folder)) {
            if let Some(adapter) = adapter_of(&device) {
                *adapters.entry(adapter).or_default() += count(&device);
            }
        }
    }
    let counts = interrupts(&fs::read_to_string(root.join("proc/interrupts")).unwrap_or_default());
    for device in entries(&root.join("sys/bus/pci/devices")) {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let adapter = adapters.entry(name).or_default();
        adapter.interrupts += numbers(&device).iter().filter_map(|number| counts.get(number)).sum::<u64>();
    }
    adapters
}

/// What came since an earlier reading, of each adapter that is there now.
pub(crate) fn since(
    now: &BTreeMap<String, Completed>,
    earlier: &BTreeMap<String, Completed>,
) -> BTreeMap<String, Completed> {
    let since = |(adapter, now): (&String, &Completed)| {
        let before = earlier.get(adapter).copied().unwrap_or_default();
        (adapter.clone(), now.since(&before))
    };
    now.iter().map(since).collect()
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

/// The PCI address of the adapter that a device belongs to: the last one in its path below `/sys/devices`.
fn adapter_of(device: &Path) -> Option<String> {
    let target = fs::read_link(device).ok()?;
    let mut names = target.iter().filter_map(|name| name.to_str());
    names.rfind(|name| is_pci_address(name)).map(str::to_owned)
}

/// Whether it is an address as the kernel writes it: `0000:3b:00.0`.
fn is_pci_address(name: &str) -> bool {
    name.parse::<Bdf>().is_ok_and(|address| address.to_string() == name)
}

/// A block device's counters (Documentation/block/stat.rst), in which a sector has 512 bytes.
fn block(device: &Path) -> Completed {
    let text = fs::read_to_string(device.join("stat")).unwrap_or_default();
    let fields: Vec<u64> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let field = |place: usize| fields.get(place).copied().unwrap_or_default();
    Completed {
        // Reads, writes, discards and flushes.
        block_requests: field(0) + field(4) + field(11) + field(15),
        block_bytes: 512 * (field(2) + field(6)),
        ..Completed::default()
    }
}

fn network(device: &Path) -> Completed {
    let counter = |name: &str| {
        let text = fs::read_to_string(device.join("statistics").join(name)).unwrap_or_default();
        text.trim().parse().unwrap_or(0_u64)
    };
    Completed {
        packets: counter("rx_packets") + counter("tx_packets"),
        packet_bytes: counter("rx_bytes") + counter("tx_bytes"),
        ..Completed::default()
    }
}

/// The numbers of a PCI device's interrupts.
fn numbers(device: &Path) -> Vec<u64> {
    let names = entries(&device.join("msi_irqs"));
    let messages = names.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    let messages: Vec<u64> = messages.collect();
    if !messages.is_empty() {
        return messages;
    }
    // A line may be shared with other devices, whose interrupts are then counted too.
    let line = fs::read_to_string(device.join("irq")).unwrap_or_default();
    line.trim().parse().ok().filter(|number| *number != 0).into_iter().collect()
}

/// Interrupts on all CPUs by number (`/proc/interrupts`).
fn interrupts(text: &str) -> BTreeMap<u64, u64> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |line| line.split_ascii_whitespace().count());
    let count = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        Some((number, words.take(cpus).map_while(|word| word.parse::<u64>().ok()).sum()))
    };
    lines.filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::os::unix::fs::symlink;

    /// Writes files with their folders.
    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn counters_are_those_of_the_adapter() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let stat = "100 0 800 5 50 0 400 5 0 9 9 7 0 56 1 3 2\n";
        write(
            root,
            &[
                ("sys/devices/pci0000:00/0000:00:1c.0/0000:3b:00.0/nvme/nvme0/nvme0n1/stat", stat),
                ("sys/devices/pci0000:00/0000:00:1c.0/0000:3b:00.0/msi_irqs/40", "msix\n"),
                ("sys/devices/pci0000:00/0000:00:1c.0/0000:3b:00.0/msi_irqs/41", "msix\n"),
                ("sys/devices/virtual/block/loop0/stat", stat),
                ("sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/statistics/rx_packets", "7\n"),
                ("sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/statistics/tx_bytes", "900\n"),
                ("sys/devices/pci0000:00/0000:00:03.0/irq", "11\n"),
                (
                    "proc/interrupts",
                    "      CPU0 CPU1\n 11:  5  6  IO-APIC\n 40:  1  2  MSI 9\n 41: 10 20 MSI\nNMI: 3 3\n",
                ),
            ],
        );
        for (link, target) in [
            ("sys/block/nvme0n1", "../devices/pci0000:00/0000:00:1c.0/0000:3b:00.0/nvme/nvme0/nvme0n1"),
            ("sys/block/loop0", "../devices/virtual/block/loop0"),
            ("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio1/net/eth0"),
            ("sys/bus/pci/devices/0000:3b:00.0", "../../../devices/pci0000:00/0000:00:1c.0/0000:3b:00.0"),
            ("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0"),
        ] {
            let link = root.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        let found = completed(root);
        let disk = Completed {
            block_requests: 160,
            block_bytes: 512 * 1200,
            interrupts: 33,
            ..Completed::default()
        };
        let network = Completed { packets: 7, packet_bytes: 900, interrupts: 11, ..Completed::default() };
        assert_eq!(found, [("0000:00:03.0".to_owned(), network), ("0000:3b:00.0".to_owned(), disk)].into());
    }

    #[test]
    fn a_counter_that_began_anew_counts_from_zero() {
        let now = Completed { packets: 5, interrupts: 12, ..Completed::default() };
        let earlier = Completed { packets: 100, interrupts: 10, ..Completed::default() };
        assert_eq!(now.since(&earlier), Completed { packets: 5, interrupts: 2, ..Completed::default() });
    }

    #[test]
    fn pci_addresses_are_told_from_other_names() {
        for (name, is_address) in [
            ("0000:3b:00.0", true),
            ("10000:e1:00.0", true),
            ("pci0000:00", false),
            ("0000:3b:00.10", false),
            ("0000:3b:00", false),
            ("0000:3g:00.0", false),
            ("0000:3b:00.0.1", false),
        ] {
            assert_eq!(is_pci_address(name), is_address, "{name}");
        }
    }
}
