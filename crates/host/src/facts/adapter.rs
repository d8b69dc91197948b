//! An adapter: a PCI function that does I/O, with its names, DMA masks, interrupts and SR-IOV relations.

use super::function::{Function, folder};
use super::interrupts::Vector;
use super::log::AnnouncedMasks;
use super::{interrupts, numa};
use crate::pci::lspci::Record;
use crate::pci::names::{self, Ids};
use crate::{Bdf, Citation, Cited, Tree};
use std::collections::{BTreeMap, HashMap};

/// Names of an adapter by the PCI ID database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Its maker.
    pub vendor: Option<String>,
    /// The device, a chip.
    pub device: Option<String>,
    /// The card.
    pub subsystem: Option<String>,
    /// Its class.
    pub class: Option<String>,
}

/// A name by which users know an adapter: `eth0`, `nvme1`, `mlx5_0`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface {
    /// The class in `/sys/class`: `net`, `block`, `infiniband`, `nvme` ...
    pub class: String,
    /// The name.
    pub name: String,
}

/// SR-IOV relations of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Virtualisation {
    /// The physical function that this one belongs to.
    pub physical: Option<Bdf>,
    /// Virtual functions that exist.
    pub virtual_functions: Vec<Bdf>,
}

/// A virtio device behind a PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Virtio {
    /// `VIRTIO_F_ACCESS_PLATFORM`, feature bit 33 (Virtual I/O Device specification 1.2, section 6):
    /// without it the device is given physical addresses, whatever IOMMU the platform has.
    pub access_platform: Cited<bool>,
}

/// An adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// The PCI function.
    pub function: Function,
    /// Names.
    pub names: Names,
    /// Names by which users know it.
    pub interfaces: Vec<Interface>,
    /// Width of the streaming DMA mask that its driver set, in bits: by sysfs, or as the driver announced it.
    pub dma_mask_bits: Option<Cited<u32>>,
    /// Width of the coherent DMA mask, in bits.
    pub coherent_mask_bits: Option<Cited<u32>>,
    /// CPUs near it (`local_cpulist`).
    pub local_cpus: Option<numa::CpuList>,
    /// Its interrupt vectors.
    pub vectors: Vec<Vector>,
    /// SR-IOV.
    pub virtualisation: Virtualisation,
    /// Set if it is a virtio device with a driver.
    pub virtio: Option<Virtio>,
    /// The kernel's attribute `removable`: `fixed`, `removable`, `unknown` (5.14 and later).
    pub removable: Option<Cited<String>>,
    /// Its location code or slot, named by firmware.
    pub slot: Option<Cited<String>>,
    /// Its node in the device tree, where there is one.
    pub device_tree_node: Option<String>,
}

impl Adapter {
    /// Whether it is a virtual function (SR-IOV): by sysfs, or by its name in the ID database.
    pub fn is_virtual_function(&self) -> bool {
        let is_named = self.names.device.as_ref().is_some_and(|name| name.contains("Virtual Function"));
        self.virtualisation.physical.is_some() || is_named
    }

    /// Cites that it can be plugged in from outside, by the kernel's word.
    pub fn cite_removable(&self) -> Option<&Citation> {
        self.removable.as_ref().filter(|cited| cited.value == "removable").map(|cited| &cited.at)
    }

    /// Whether sysfs shows its mask: its IOMMU group would lie beside it.
    pub fn shows_mask(&self) -> bool {
        self.dma_mask_bits.as_ref().is_some_and(|mask| mask.at.file.starts_with("sys/"))
    }

    /// The streaming DMA mask, if its driver asks for fewer than 64 bits.
    pub fn narrow_mask(&self) -> Option<&Cited<u32>> {
        self.dma_mask_bits.as_ref().filter(|mask| mask.value < 64)
    }
}

/// Tables by which adapters are completed: read once for all adapters.
pub(super) struct AdapterTables {
    interfaces: HashMap<Bdf, Vec<Interface>>,
    vectors: HashMap<u32, Vector>,
    slots: Vec<(Bdf, Cited<String>)>,
    names: names::Names,
    listed: HashMap<Bdf, Record>,
}

impl AdapterTables {
    /// Reads the tables for all adapters of a host.
    pub(super) fn read(tree: &Tree, listing: Vec<Record>, functions: &[Function]) -> Self {
        let wanted: Vec<Ids> = functions.iter().map(|function| function.ids).collect();
        let table = ["usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids"].iter().find_map(|path| {
            let head = tree.bytes_at(path, 0, names::HEAD_BYTES)?;
            Some((path, String::from_utf8_lossy(&head).into_owned()))
        });
        let head = table.as_ref().map(|(_, head)| head.as_str());
        let read_table = || table.as_ref().and_then(|(path, _)| tree.bytes(path));
        Self {
            interfaces: interfaces(tree),
            vectors: interrupts::read(tree),
            slots: slots(tree),
            names: names::Names::lookup(&wanted, head, read_table),
            listed: listing.into_iter().map(|record| (record.bdf, record)).collect(),
        }
    }

    /// Names by the PCI ID database, or else those that lspci printed.
    fn names(&self, function: &Function) -> Names {
        let ids = &function.ids;
        let own = |name: Option<&str>| name.map(str::to_owned);
        let listed = self.listed.get(&function.address);
        let device = own(self.names.device(ids));
        Names {
            vendor: ids.vendor.and_then(|vendor| own(self.names.vendor(vendor))),
            device: device.or_else(|| listed.and_then(|record| record.name.clone())),
            subsystem: own(self.names.subsystem(ids))
                .or_else(|| listed.and_then(|record| record.subsystem_name.clone())),
            class: ids
                .class
                .and_then(|class| own(self.names.class(class)))
                .or_else(|| listed.and_then(|record| record.class_name.clone())),
        }
    }
}

/// The adapter of a function, with its attributes from sysfs and its entries in the tables.
pub(super) fn complete(tree: &Tree, function: Function, tables: &AdapterTables) -> Adapter {
    let folder = folder(function.address);
    let bits = |name: &str| {
        let cited = tree.value(&format!("{folder}/{name}"))?;
        Some(Cited::new(cited.value.parse().ok()?, cited.at))
    };
    Adapter {
        names: tables.names(&function),
        interfaces: tables.interfaces.get(&function.address).cloned().unwrap_or_default(),
        dma_mask_bits: bits("dma_mask_bits"),
        coherent_mask_bits: bits("consistent_dma_mask_bits"),
        local_cpus: tree
            .value(&format!("{folder}/local_cpulist"))
            .map(|cited| numa::CpuList::parse(&cited.value)),
        vectors: vectors(tree, &folder, tables),
        virtualisation: virtualisation(tree, &folder),
        virtio: virtio(tree, &folder),
        removable: tree.value(&format!("{folder}/removable")),
        slot: slot(tree, &function, &folder, tables),
        device_tree_node: device_tree_node(tree, &folder),
        function,
    }
}

/// Completes masks that sysfs does not show by what drivers announced in the log.
pub(super) fn complete_masks(adapters: &mut [Adapter], announced: &BTreeMap<Bdf, AnnouncedMasks>) {
    for adapter in adapters {
        let Some(masks) = announced.get(&adapter.function.address) else { continue };
        adapter.dma_mask_bits = adapter.dma_mask_bits.take().or_else(|| masks.streaming.clone());
        adapter.coherent_mask_bits = adapter.coherent_mask_bits.take().or_else(|| masks.coherent.clone());
    }
}

/// Interfaces of all adapters, by the links in the class folders. Reading these takes one link per interface; a
/// search below each adapter would take more.
fn interfaces(tree: &Tree) -> HashMap<Bdf, Vec<Interface>> {
    const CLASSES: [&str; 7] = ["net", "nvme", "block", "infiniband", "fc_host", "scsi_host", "drm"];
    let mut found: HashMap<Bdf, Vec<Interface>> = HashMap::new();
    for class in CLASSES {
        let folder = format!("sys/class/{class}");
        if !tree.exists(&folder) {
            continue;
        }
        for name in tree.names(&folder) {
            let Some(target) = tree.link(&format!("{folder}/{name}")) else { continue };
            let is_part = class == "block" && is_partition(&target) || class == "drm" && name.contains('-');
            let owner = target.split('/').filter_map(|part| part.parse::<Bdf>().ok()).next_back();
            if let (Some(owner), false) = (owner, is_part) {
                found.entry(owner).or_default().push(Interface { class: class.to_owned(), name });
            }
        }
    }
    found
}

/// Whether a block device is a partition. Its folder is then inside its disk's: `.../block/sda/sda1`, `.../nvme0n1/nvme0n1p1`.
fn is_partition(target: &str) -> bool {
    let mut names = target.rsplit('/');
    match (names.next(), names.next()) {
        (Some(name), Some(disk)) => {
            let rest = name.strip_prefix(disk).map(|rest| rest.trim_start_matches('p'));
            rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        }
        _ => false,
    }
}

/// The interrupt vectors of an adapter: its MSI and MSI-X vectors, or else its interrupt line.
fn vectors(tree: &Tree, folder: &str, tables: &AdapterTables) -> Vec<Vector> {
    let message_signalled = format!("{folder}/msi_irqs");
    let mut numbers: Vec<u32> = match tree.exists(&message_signalled) {
        true => numa::numbered(tree, &message_signalled, "").collect(),
        false => tree
            .value(&format!("{folder}/irq"))
            .and_then(|cited| cited.value.parse().ok())
            .filter(|number| *number != 0)
            .into_iter()
            .collect(),
    };
    numbers.sort_unstable();
    let known = numbers.iter().filter_map(|number| tables.vectors.get(number));
    known
        .map(|vector| Vector { affinity: interrupts::affinity(tree, vector.number), ..vector.clone() })
        .collect()
}

/// The SR-IOV relations of a function.
fn virtualisation(tree: &Tree, folder: &str) -> Virtualisation {
    let address = |name: &str| tree.link_name(&format!("{folder}/{name}"))?.value.parse().ok();
    let count: u32 =
        tree.value(&format!("{folder}/sriov_numvfs")).and_then(|cited| cited.value.parse().ok()).unwrap_or(0);
    // 65,535 is the width of NumVFs (PCI Express Base Specification, SR-IOV capability).
    let virtual_functions = (0..count.min(0xffff)).map_while(|n| address(&format!("virtfn{n}"))).collect();
    Virtualisation { physical: address("physfn"), virtual_functions }
}

/// The virtio device of a function, if a virtio driver is bound to it.
fn virtio(tree: &Tree, folder: &str) -> Option<Virtio> {
    let named = tree.names(folder).into_iter();
    let device = named.filter(|name| name.starts_with("virtio")).min()?;
    let features = tree.value(&format!("{folder}/{device}/features"))?;
    // The file shows feature bit 0 first (drivers/virtio/virtio.c, features_show).
    let access_platform = features.value.as_bytes().get(33)? == &b'1';
    Some(Virtio { access_platform: Cited::new(access_platform, features.at) })
}

/// Names of hot-plug slots. Each is for a bus and device; the function is set to 0.
fn slots(tree: &Tree) -> Vec<(Bdf, Cited<String>)> {
    let folder = "sys/bus/pci/slots";
    if !tree.exists(folder) {
        return Vec::new();
    }
    let slot = |name: String| {
        let cited = tree.value(&format!("{folder}/{name}/address"))?;
        let address = format!("{}.0", cited.value).parse().ok()?;
        Some((address, Cited::new(name, cited.at)))
    };
    tree.names(folder).into_iter().filter_map(slot).collect()
}

/// The location code from the device tree, or else the hot-plug slot, or else the slot that lspci printed.
fn slot(tree: &Tree, function: &Function, folder: &str, tables: &AdapterTables) -> Option<Cited<String>> {
    let code = tree.bytes(&format!("{folder}/of_node/ibm,loc-code")).and_then(|bytes| {
        let code = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next()?).into_owned();
        let at = crate::Citation::of_file(&format!("{folder}/of_node/ibm,loc-code"), &code);
        (!code.is_empty()).then(|| Cited::new(code, at))
    });
    let same_place = |place: &Bdf| (place.domain, place.bus, place.device);
    let hot_plug = || {
        let place = same_place(&function.address);
        tables.slots.iter().find(|(address, _)| same_place(address) == place).map(|(_, name)| name.clone())
    };
    let listed = || {
        let record = tables.listed.get(&function.address)?;
        Some(Cited::new(record.physical_slot.clone()?, record.at.clone()))
    };
    code.or_else(hot_plug).or_else(listed)
}

/// The device-tree node, by the link `of_node` or by the path in `devspec`.
fn device_tree_node(tree: &Tree, folder: &str) -> Option<String> {
    let link = format!("{folder}/of_node");
    let by_link = tree.exists(&link).then(|| tree.real_path(&link)).flatten();
    by_link.or_else(|| {
        let path = tree.value(&format!("{folder}/devspec"))?.value;
        let node = format!("proc/device-tree/{}", path.trim_start_matches('/'));
        Some(tree.real_path(&node).unwrap_or(node))
    })
}
