//! A PCI function as sysfs, lspci or `/proc/bus/pci` shows it: IDs, capabilities, bridges above, driver.

use super::iommu::Group;
use super::named_function::NamedFunction;
use crate::pci::fetch::fetch;
use crate::pci::lspci::Record;
use crate::pci::names::{Ids, class_named};
use crate::pci::{
    BridgeBuses, BusTree, Capabilities, ClassCode, ConfigSpace, Header, Kind, LinkEnd, LinkSpeed, LinkWidth,
    Reach, proc_bus_pci,
};
use crate::{Bdf, Citation, Cited, Tree, tree};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A PCI function: an adapter or a bridge.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Its address.
    pub address: Bdf,
    /// Bridges between the root and it, root port first.
    pub upstream: Vec<Bdf>,
    /// Vendor, device and subsystem IDs, and its class.
    pub ids: Ids,
    /// How much of its configuration space was read; `None` if nothing.
    pub config_reach: Option<Reach>,
    /// The file its registers were read from.
    pub config_at: Option<Citation>,
    /// Its source: its folder in sysfs, the file in `/proc/bus/pci`, or lspci's output.
    pub source: String,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// Its end of a link. For an adapter that is the link above it, for a port the link below it.
    pub link: Cited<LinkEnd>,
    /// The driver bound to it.
    pub driver: Option<Cited<String>>,
    /// Whether its source would name a driver: a short line of lspci does not.
    pub shows_driver: bool,
    /// The number of its IOMMU group.
    pub iommu_group: Option<Cited<u32>>,
    /// Its NUMA node; `None` also where firmware names none (-1).
    pub numa_node: Option<Cited<u32>>,
}

/// The name of a driver's module: the kernel takes `-` for `_` in it.
pub fn module_name(driver: &str) -> String {
    driver.replace('-', "_")
}

impl Function {
    /// Whether this driver is bound to it.
    pub fn has_driver(&self, name: &str) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.value == name)
    }

    /// The module of its driver.
    pub fn module(&self) -> Option<String> {
        self.driver.as_ref().map(|driver| module_name(&driver.value))
    }

    /// Whether it connects buses or is part of the chipset, rather than doing I/O of its own.
    pub fn is_bridge(&self) -> bool {
        self.ids.class.is_some_and(|class| matches!(class.kind(), Kind::Bridge | Kind::Iommu))
    }

    /// The driver that gives it to user space, if one of VFIO's is bound. Makers' variants name themselves first: mlx5_vfio_pci,
    /// nvgrace-gpu-vfio-pci.
    pub fn vfio_driver(&self) -> Option<&Cited<String>> {
        self.driver.as_ref().filter(|driver| driver.value.contains("vfio"))
    }

    /// Whether it has a link below it, as a root port or a switch's downstream port has.
    pub fn leads_down(&self) -> bool {
        match self.capabilities.express.get().and_then(|express| express.port) {
            Some(port) => port.leads_down(),
            // The port type was not read. On a path, ports with a link below (root, downstream) and upstream ports
            // alternate; an upstream port reports the link above it.
            None => {
                let may_lead_down = self.upstream.len().is_multiple_of(2);
                may_lead_down && self.link.value.speed.is_some() && self.is_bridge()
            }
        }
    }
}

const FOLDER: &str = "sys/bus/pci/devices";

/// Reads all functions: from sysfs, else from lspci's output, else from `/proc/bus/pci`.
pub(super) fn read(tree: &Tree, listing: &[Record]) -> Vec<Function> {
    let mut functions = read_sysfs(tree);
    match functions.is_empty() {
        true if listing.is_empty() => functions = read_proc_bus_pci(tree),
        true => functions = from_lspci(listing),
        false => complete_from_lspci(&mut functions, listing),
    }
    functions.sort_by_key(|function| function.address);
    functions
}

/// Path of a function's folder.
pub(super) fn folder(address: Bdf) -> String {
    format!("{FOLDER}/{address}")
}

/// Most functions that are read of a host: as many as one PCI segment has addresses. Each takes some KiB of memory.
pub(super) const FUNCTIONS_MAX: usize = 1 << 16;

/// Whether a source has at most `FUNCTIONS_MAX` functions. If it has more, the source is refused.
pub(super) fn is_within_limit<T>(tree: &Tree, source: &str, functions: impl Iterator<Item = T>) -> bool {
    let fits = functions.take(FUNCTIONS_MAX + 1).count() <= FUNCTIONS_MAX;
    if !fits {
        tree.refuse(source, tree::Refusal::TooMany { what: "PCI functions", max: FUNCTIONS_MAX });
    }
    fits
}

/// All functions in sysfs.
fn read_sysfs(tree: &Tree) -> Vec<Function> {
    let addresses: Vec<Bdf> = tree.names(FOLDER).into_iter().filter_map(|name| name.parse().ok()).collect();
    match is_within_limit(tree, FOLDER, addresses.iter()) {
        true => addresses.into_iter().map(|address| read_folder(tree, address)).collect(),
        false => Vec::new(),
    }
}

/// The function with this address, from its folder in sysfs.
fn read_folder(tree: &Tree, address: Bdf) -> Function {
    let folder = folder(address);
    let config = Config::read(tree, &format!("{folder}/config"));
    let number = |name: &str| {
        let cited = tree.value(&format!("{folder}/{name}"))?;
        Some(Cited::new(cited.value.parse().ok()?, cited.at))
    };
    let group = tree.link_name(&format!("{folder}/iommu_group"));
    Function {
        address,
        upstream: bridges_in_path(tree, &folder, address),
        ids: ids(tree, &folder, &config.header),
        link: link(tree, &folder, address, &config),
        config_reach: config.reach,
        config_at: config.at,
        capabilities: config.capabilities,
        driver: tree.link_name(&format!("{folder}/driver")),
        shows_driver: true,
        iommu_group: group.and_then(|cited| Some(Cited::new(cited.value.parse().ok()?, cited.at))),
        numa_node: number("numa_node"),
        source: folder,
    }
}

/// Completes functions of sysfs by lspci's output. lspci run by root shows registers that a capture of sysfs made
/// without root lacks.
fn complete_from_lspci(functions: &mut [Function], listing: &[Record]) {
    let listed: HashMap<Bdf, &Record> = listing.iter().rev().map(|record| (record.bdf, record)).collect();
    for function in functions {
        let Some(record) = listed.get(&function.address) else { continue };
        function.capabilities = std::mem::take(&mut function.capabilities).or(record.capabilities.clone());
        if let Some(express) = record.capabilities.express.get() {
            function.link.value = function.link.value.or(LinkEnd::from_registers(record.bdf, express));
        }
        function.driver = function.driver.take().or_else(|| record.driver.clone());
    }
}

/// Completes the functions of a host without sysfs by those that its log names, with what it says of their drivers.
pub(super) fn complete_from_log(functions: &mut Vec<Function>, named: &BTreeMap<Bdf, NamedFunction>) {
    for function in functions.iter_mut().filter(|function| function.driver.is_none()) {
        function.driver = named.get(&function.address).and_then(|named| named.driver.clone());
    }
    let known: HashSet<Bdf> = functions.iter().map(|function| function.address).collect();
    let buses = BusTree::new(named.iter().filter_map(|(address, named)| Some((*address, named.buses?))));
    let added = named.iter().filter(|(address, _)| !known.contains(address));
    functions
        .extend(added.map(|(address, named)| from_named(*address, named, buses.bridges_above(*address))));
    functions.sort_by_key(|function| function.address);
}

/// Sets the groups of functions whose own folders were not there, by the groups' lists of members.
pub(super) fn complete_from_groups(functions: &mut [Function], groups: &BTreeMap<u32, Group>) {
    let members =
        groups.values().flat_map(|group| group.members.iter().map(move |member| (*member, group.number)));
    let groups: HashMap<Bdf, u32> = members.collect();
    for function in functions.iter_mut().filter(|function| function.iommu_group.is_none()) {
        function.iommu_group = groups.get(&function.address).map(|number| {
            let folder = format!("sys/kernel/iommu_groups/{number}/devices");
            Cited::new(*number, Citation::of_file(&folder, &function.address.to_string()))
        });
    }
}

/// The function that the log names.
fn from_named(address: Bdf, named: &NamedFunction, upstream: Vec<Bdf>) -> Function {
    let (vendor, device) = named.ids.unzip();
    let class = named.class();
    Function {
        address,
        upstream,
        ids: Ids { vendor, device, subsystem: None, class },
        config_reach: None,
        config_at: None,
        source: named.at.file.to_string(),
        capabilities: Capabilities::default(),
        link: Cited::new(LinkEnd::unknown(address), named.at.clone()),
        driver: named.driver.clone(),
        shows_driver: false,
        iommu_group: None,
        numa_node: None,
    }
}

/// All functions in lspci's output.
fn from_lspci(listing: &[Record]) -> Vec<Function> {
    let buses = BusTree::new(listing.iter().filter_map(|record| Some((record.bdf, record.buses?))));
    listing.iter().map(|record| from_record(record, buses.bridges_above(record.bdf))).collect()
}

/// The function that a record of lspci describes.
fn from_record(record: &Record, upstream: Vec<Bdf>) -> Function {
    let end = record.capabilities.express.get().map(|express| LinkEnd::from_registers(record.bdf, express));
    Function {
        address: record.bdf,
        upstream,
        ids: Ids {
            vendor: record.vendor,
            device: record.device,
            subsystem: record.subsystem,
            class: record
                .class
                .or_else(|| class_named(record.class_name.as_deref()?))
                .or_else(|| record.buses.map(|_| ClassCode::PCI_BRIDGE)),
        },
        config_reach: None,
        config_at: None,
        source: record.at.file.to_string(),
        capabilities: record.capabilities.clone(),
        link: Cited::new(end.unwrap_or_else(|| LinkEnd::unknown(record.bdf)), record.cite("LnkSta").clone()),
        driver: record.driver.clone(),
        shows_driver: record.shows_driver,
        iommu_group: record.iommu_group.clone(),
        numa_node: record.numa_node.clone(),
    }
}

/// All functions in `/proc/bus/pci`, which sosreports copy. It has a folder per bus with each function's
/// configuration space, and a list with drivers. It has no PCI domains, so domain 0 is assumed.
fn read_proc_bus_pci(tree: &Tree) -> Vec<Function> {
    let Some(text) = tree.text("proc/bus/pci/devices") else { return Vec::new() };
    if !is_within_limit(tree, text.file(), text.lines()) {
        return Vec::new();
    }
    let lines = proc_bus_pci::parse(&text);
    let read: Vec<(Bdf, Config, String)> = lines
        .iter()
        .map(|line| {
            let address = Bdf { domain: 0, bus: line.bus, device: line.device, function: line.function };
            let file = format!("proc/bus/pci/{:02x}/{:02x}.{:x}", line.bus, line.device, line.function);
            (address, Config::read(tree, &file), file)
        })
        .collect();
    let buses: Vec<(Bdf, BridgeBuses)> =
        read.iter().filter_map(|(address, config, _)| Some((*address, config.header.buses?))).collect();
    let buses = BusTree::new(buses);
    let functions = read.into_iter().zip(lines).map(|((address, config, file), line)| {
        let end = config.capabilities.express.get().map(|express| LinkEnd::from_registers(address, express));
        let at = config.at.clone().unwrap_or_else(|| line.at.clone());
        Function {
            address,
            upstream: buses.bridges_above(address),
            ids: Ids {
                vendor: Some(line.vendor_id),
                device: Some(line.device_id),
                subsystem: config.header.subsystem,
                class: config.header.class,
            },
            config_reach: config.reach,
            config_at: config.at,
            source: file,
            capabilities: config.capabilities,
            link: Cited::new(end.unwrap_or_else(|| LinkEnd::unknown(address)), at),
            shows_driver: true,
            driver: line.driver.map(|driver| Cited::new(driver, line.at)),
            iommu_group: None,
            numa_node: None,
        }
    });
    functions.collect()
}

/// The decoded configuration space, as far as it was read.
struct Config {
    header: Header,
    capabilities: Capabilities,
    reach: Option<Reach>,
    at: Option<Citation>,
}

impl Config {
    /// Reads and decodes the configuration space of a function.
    fn read(tree: &Tree, file: &str) -> Self {
        // On the running machine each dword is a transaction with the function; in a capture reading is cheap.
        let bytes = match tree.reach() {
            tree::Reach::Live => fetch(|offset, length| tree.bytes_at(file, offset, length)),
            tree::Reach::Capture => tree.bytes(file),
        };
        let config = ConfigSpace::new(bytes.as_deref().unwrap_or_default());
        Self {
            header: Header::decode(config),
            capabilities: Capabilities::decode(config),
            reach: bytes.as_ref().map(|_| config.reach()),
            at: bytes.as_ref().map(|bytes| Citation::of_file(file, &format!("{} bytes", bytes.len()))),
        }
    }
}

/// The bridges above a function: in sysfs its folder is inside theirs, whose names are addresses.
fn bridges_in_path(tree: &Tree, folder: &str, address: Bdf) -> Vec<Bdf> {
    let path = tree.real_path(folder).unwrap_or_default();
    path.split('/').filter_map(|name| name.parse().ok()).filter(|bridge| *bridge != address).collect()
}

/// IDs and class, from configuration space or else from sysfs.
fn ids(tree: &Tree, folder: &str, header: &Header) -> Ids {
    let number = |name: &str| parse_hex(&tree.value(&format!("{folder}/{name}"))?.value);
    let short = |name: &str| u16::try_from(number(name)?).ok();
    // A virtual function's Vendor ID and Device ID read as ones; sysfs has those of its physical function.
    Ids {
        vendor: header.vendor.or_else(|| short("vendor")),
        device: header.device.or_else(|| short("device")),
        subsystem: header.subsystem,
        class: header.class.or_else(|| number("class").map(ClassCode::from_bits)),
    }
}

/// The link end, from registers or else from sysfs attributes, which need no privilege.
fn link(tree: &Tree, folder: &str, address: Bdf, config: &Config) -> Cited<LinkEnd> {
    let end = LinkEnd::unknown(address);
    match (config.capabilities.express.get(), &config.at) {
        (Some(express), Some(at)) => Cited::new(LinkEnd::from_registers(address, express), at.clone()),
        _ if config.capabilities.express.is_absent() => {
            Cited::new(end, Citation::of_file(folder, "not PCI Express"))
        }
        _ => link_attributes(tree, folder, end),
    }
}

/// The link end by `current_link_speed`, `max_link_width` and so on.
fn link_attributes(tree: &Tree, folder: &str, end: LinkEnd) -> Cited<LinkEnd> {
    let read = |name: &str| tree.value(&format!("{folder}/{name}"));
    let now = (read("current_link_speed"), read("current_link_width"));
    let most = (read("max_link_speed"), read("max_link_width"));
    let said =
        |cited: &Option<Cited<String>>| cited.as_ref().map_or("?", |cited| cited.value.as_str()).to_owned();
    let speed = |cited: &Option<Cited<String>>| LinkSpeed::parse(&cited.as_ref()?.value);
    let width = |cited: &Option<Cited<String>>| LinkWidth::parse(&cited.as_ref()?.value);
    let text = format!("{} x{} of {} x{}", said(&now.0), said(&now.1), said(&most.0), said(&most.1));
    let end = LinkEnd {
        speed: speed(&now.0),
        width: width(&now.1),
        speed_max: speed(&most.0),
        width_max: width(&most.1),
        ..end
    };
    Cited::new(end, Citation::of_file(&format!("{folder}/current_link_speed"), &text))
}

/// Parses a hexadecimal number with or without `0x`.
fn parse_hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}
