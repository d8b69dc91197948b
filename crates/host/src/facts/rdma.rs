//! RDMA devices, of adapters or of the kernel itself, with their ports.

use crate::memory::{Memtype, PhysRange, range::parse_hex};
use crate::tree::{RDMA_DEVICES, Reach};
use crate::{Bdf, Cited, Text, Tree};
use std::fmt;

/// A device that moves data by RDMA: InfiniBand, RoCE or iWARP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Its name: `mlx5_0`.
    pub name: String,
    /// What does its work.
    pub engine: Engine,
    /// Its ports, by number.
    pub ports: Vec<RdmaPort>,
    /// How many queue pairs it has now, those of the kernel included.
    pub queue_pairs: Option<Cited<u64>>,
    /// How many memory registrations it has now.
    pub registrations: Option<Cited<u64>>,
    /// Addresses of its adapter's registers, doorbells among them.
    pub registers: Vec<PhysRange>,
}

/// What does the work of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// The adapter at this address.
    Adapter(Bdf),
    /// The kernel, on top of a network interface, whose name is known of soft-RoCE.
    Software(Option<Cited<String>>),
    /// Another device than a PCI function.
    Other,
}

impl Engine {
    /// The address of the adapter.
    fn adapter(&self) -> Option<Bdf> {
        match self {
            Self::Adapter(address) => Some(*address),
            Self::Software(_) | Self::Other => None,
        }
    }
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// What its link is: `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Whether its link is up and carries data.
    pub is_active: Option<bool>,
    /// Its rate as sysfs has it: `100 Gb/sec (4X EDR)`.
    pub rate: Option<Cited<String>>,
}

impl RdmaPort {
    /// The data that its link carries at most in one direction, after line encoding, in Mb/s.
    ///
    /// sysfs names the rate before encoding up to QDR (8 bits in 10) and for FDR (64 in 66), and that of data for FDR10, EDR and
    /// later links (drivers/infiniband/core/sysfs.c, `rate_show`). Ethernet's rates are those of data.
    pub fn data_mbps(&self) -> Option<u32> {
        let rate = &self.rate.as_ref()?.value;
        let lanes = tenths(rate.split(' ').next()?)?.checked_mul(100)?;
        if self.link_layer.as_deref() != Some("InfiniBand") {
            return Some(lanes);
        }
        let is_generation = |name: &str| rate.split([' ', '(', ')']).any(|word| word == name);
        Some(match () {
            () if ["SDR", "DDR", "QDR"].into_iter().any(is_generation) => lanes / 10 * 8,
            () if is_generation("FDR") => lanes / 66 * 64,
            () => lanes,
        })
    }
}

/// `2.5` as 25, `100` as 1000.
fn tenths(number: &str) -> Option<u32> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digit = |part: &str| (part.len() == 1).then(|| part.parse::<u32>().ok()).flatten();
    whole.parse::<u32>().ok()?.checked_mul(10)?.checked_add(digit(part)?)
}

impl RdmaDevice {
    /// The address of its adapter.
    pub fn adapter(&self) -> Option<Bdf> {
        self.engine.adapter()
    }

    /// The mappings among `all` that lead to its adapter's registers.
    pub fn mappings<'m>(&self, all: &'m [Cited<Memtype>]) -> impl Iterator<Item = &'m Cited<Memtype>> {
        let is_own = |mapping: &&Cited<Memtype>| {
            self.registers.iter().any(|registers| registers.overlaps(mapping.value.range))
        };
        all.iter().filter(is_own)
    }
}

impl fmt::Display for RdmaPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.is_active {
            Some(true) => "active",
            Some(false) => "not active",
            None => "state not read",
        };
        let link_layer = self.link_layer.as_deref().unwrap_or("link not read");
        let rate = self.rate.as_ref().map_or("rate not read", |rate| &rate.value);
        write!(f, "port {}: {link_layer}, {state}, {rate}", self.number)
    }
}

/// Reads all RDMA devices, by name.
pub(super) fn read(tree: &Tree) -> Vec<RdmaDevice> {
    if !tree.exists(RDMA_DEVICES) {
        return Vec::new();
    }
    let mut names = tree.names(RDMA_DEVICES);
    names.sort_unstable();
    let resources = tree.rdma_resources();
    names.into_iter().map(|name| device(tree, resources.as_ref(), name)).collect()
}

/// The device of this name, with what `rdma resource` prints of all devices.
fn device(tree: &Tree, resources: Option<&Text>, name: String) -> RdmaDevice {
    let folder = format!("{RDMA_DEVICES}/{name}");
    let engine = engine(tree, &folder);
    let address = engine.adapter();
    let summary = resources.and_then(|text| summary(text, &name));
    let count = |key: &str| summary.as_ref().and_then(|line| count(line, key));
    RdmaDevice {
        ports: ports(tree, &folder),
        queue_pairs: count("qp").or_else(|| queue_pairs(tree, address?)),
        registrations: count("mr"),
        registers: address.map_or_else(Vec::new, |address| registers(tree, address)),
        engine,
        name,
    }
}

/// What does the work of the device in a folder.
///
/// Only soft-RoCE has an attribute `parent`, the name of its network interface (drivers/infiniband/sw/rxe/rxe_verbs.c). Up to
/// Linux 5.10 its folder is below that interface's adapter; later ones of software are below no device.
fn engine(tree: &Tree, folder: &str) -> Engine {
    if let Some(interface) = tree.value(&format!("{folder}/parent")) {
        return Engine::Software(Some(interface));
    }
    let Some(target) = tree.link(folder) else { return Engine::Other };
    if target.split('/').any(|part| part == "virtual") {
        return Engine::Software(None);
    }
    let mut addresses = target.split('/').filter_map(|part| part.parse::<Bdf>().ok());
    addresses.next_back().map_or(Engine::Other, Engine::Adapter)
}

/// The ports of the device in a folder.
fn ports(tree: &Tree, folder: &str) -> Vec<RdmaPort> {
    let parent = format!("{folder}/ports");
    let mut numbers: Vec<u32> = tree.names(&parent).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    let port = |number: u32| {
        let value = |name: &str| tree.value(&format!("{parent}/{number}/{name}"));
        RdmaPort {
            number,
            link_layer: value("link_layer").map(|cited| cited.value),
            // `4: ACTIVE`; what a port was just before, deferred by firmware, counts as not active.
            is_active: value("state").map(|cited| cited.value.starts_with("4:")),
            rate: value("rate"),
        }
    };
    numbers.into_iter().map(port).collect()
}

/// The line about a device in the output of `rdma resource`: `0: mlx5_0: pd 4 cq 6 qp 5 cm_id 0 mr 2`.
fn summary(text: &Text, name: &str) -> Option<Cited<String>> {
    let of_device = |line: &str| line.split(": ").nth(1) == Some(name);
    let (number, line) = text.lines().find(|(_, line)| of_device(line))?;
    Some(Cited::new(line.to_owned(), text.cite(number, line)))
}

/// The count behind a key in such a line.
fn count(line: &Cited<String>, key: &str) -> Option<Cited<u64>> {
    let mut words = line.value.split_whitespace().skip_while(|word| *word != key);
    let value = words.nth(1)?.parse().ok()?;
    Some(Cited::new(value, line.at.clone()))
}

/// The queue pairs that the driver of ConnectX-4 and later lists in debugfs (drivers/net/ethernet/mellanox/mlx5/core/debugfs.c).
fn queue_pairs(tree: &Tree, address: Bdf) -> Option<Cited<u64>> {
    let folder = format!("sys/kernel/debug/mlx5/{address}/QPs");
    if tree.reach() != Reach::Live || !tree.exists(&folder) {
        return None;
    }
    let count = tree.names(&folder).len();
    let at = crate::Citation::of_file(&folder, &format!("{count} entries"));
    Some(Cited::new(u64::try_from(count).ok()?, at))
}

/// The memory behind the base address registers of a function, from sysfs: a line for each, first and last address and flags.
fn registers(tree: &Tree, address: Bdf) -> Vec<PhysRange> {
    /// Linux's flag of a range of memory (include/linux/ioport.h, `IORESOURCE_MEM`).
    const MEMORY: u64 = 0x200;
    /// A function has six; what follows is its ROM and, of SR-IOV, its virtual functions'.
    const REGISTERS: usize = 6;
    let Some(text) = tree.text(&format!("sys/bus/pci/devices/{address}/resource")) else { return Vec::new() };
    let range = |(_, line): (u32, &str)| {
        let mut numbers = line.split_whitespace().map(parse_hex);
        let (first, last, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
        (flags & MEMORY != 0).then(|| PhysRange::from_first_to_last(first, last)).flatten()
    };
    text.lines().take(REGISTERS).filter_map(range).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
mod tests {
    use super::*;
    use crate::Citation;
    use crate::tree::{Memory, Refusal};

    fn data_mbps(link_layer: &str, rate: &str) -> Option<u32> {
        let rate = Some(Cited::new(rate.to_owned(), Citation::of_file("rate", "")));
        RdmaPort { number: 1, link_layer: Some(link_layer.to_owned()), is_active: None, rate }.data_mbps()
    }

    #[test]
    fn line_encoding_is_taken_off_where_the_rate_has_it() {
        // InfiniBand Architecture Specification 1.4, volume 2: 8b/10b up to QDR, 64b/66b since FDR.
        assert_eq!(data_mbps("InfiniBand", "2.5 Gb/sec (1X SDR)"), Some(2_000));
        assert_eq!(data_mbps("InfiniBand", "40 Gb/sec (4X QDR)"), Some(32_000));
        assert_eq!(data_mbps("InfiniBand", "56 Gb/sec (4X FDR)"), Some(54_272));
        assert_eq!(data_mbps("InfiniBand", "200 Gb/sec (4X HDR)"), Some(200_000));
        // The words for Ethernet's rates are those of the nearest InfiniBand link.
        assert_eq!(data_mbps("Ethernet", "40 Gb/sec (4X QDR)"), Some(40_000));
        assert_eq!(data_mbps("Ethernet", "a Gb/sec"), None);
        assert_eq!(data_mbps("Ethernet", "99999999999 Gb/sec"), None);
    }

    #[test]
    fn devices_of_adapters_and_of_software() {
        let mut files = Memory::default();
        let class = "sys/class/infiniband";
        files.link(
            &format!("{class}/mlx5_0"),
            "../../devices/pci0000:00/0000:00:02.0/0000:3b:00.0/infiniband/mlx5_0",
        );
        let device = "sys/devices/pci0000:00/0000:00:02.0/0000:3b:00.0";
        files.file(&format!("{device}/infiniband/mlx5_0/ports/1/rate"), "100 Gb/sec (4X EDR)\n");
        files.file(&format!("{device}/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE\n");
        files.file(&format!("{device}/infiniband/mlx5_0/ports/1/link_layer"), "InfiniBand\n");
        files.file(
            &format!("{device}/resource"),
            "0x0000002000000000 0x0000002001ffffff 0x000000000014220c\n\
             0x0000000000001000 0x00000000000010ff 0x0000000000040101\n",
        );
        files.link(
            "sys/bus/pci/devices/0000:3b:00.0",
            "../../../devices/pci0000:00/0000:00:02.0/0000:3b:00.0",
        );
        // Below its interface's adapter, as up to 5.10.
        files.link(
            &format!("{class}/rxe0"),
            "../../devices/pci0000:00/0000:00:02.0/0000:3b:00.0/infiniband/rxe0",
        );
        files.file(&format!("{device}/infiniband/rxe0/parent"), "eth0\n");
        files.link(&format!("{class}/siw0"), "../../devices/virtual/infiniband/siw0");
        files.folder("sys/devices/virtual/infiniband/siw0");
        files.file("rdma_resource", "0: mlx5_0: pd 4 cq 6 qp 5 cm_id 0 mr 2 ctx 0 srq 2\n");
        let devices = read(&Tree::of_memory(files));
        let [mlx5, rxe, siw] = devices.as_slice() else { panic!("{devices:?}") };
        assert_eq!(mlx5.adapter(), Some("0000:3b:00.0".parse().unwrap()));
        assert_eq!(mlx5.ports[0].to_string(), "port 1: InfiniBand, active, 100 Gb/sec (4X EDR)");
        assert_eq!(mlx5.queue_pairs.as_ref().map(|count| count.value), Some(5));
        assert_eq!(mlx5.registrations.as_ref().map(|count| count.value), Some(2));
        assert_eq!(mlx5.registers, [PhysRange::from_first_to_last(0x20_0000_0000, 0x20_01ff_ffff).unwrap()]);
        assert!(matches!(&rxe.engine, Engine::Software(Some(interface)) if interface.value == "eth0"));
        assert_eq!(siw.engine, Engine::Software(None));
        assert!(siw.queue_pairs.is_none() && siw.ports.is_empty());
    }

    #[test]
    fn counts_that_were_not_read_are_listed_and_decide_nothing() {
        let mut files = Memory::default();
        files.file("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
        files.refused("rdma_resource", Refusal::NoPermission);
        let host = crate::facts::Host::read(&Tree::of_memory(files));
        assert!(host.rdma[0].queue_pairs.is_none() && host.rdma[0].registrations.is_none());
        let what = "how many queue pairs and registrations RDMA devices have";
        let unseen = host.unseen.iter().find(|unseen| unseen.what == what).unwrap();
        assert_eq!(unseen.why, "rdma_resource: permission denied");
        assert!(!unseen.decisive);
    }
}
