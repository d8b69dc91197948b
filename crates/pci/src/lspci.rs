//! The text of `lspci`, with any mix of `-v`, `-n`, `-D`, `-k` and `-x`, from pciutils 3.1 to 3.14.
//!
//! Captures often hold this text and nothing else about PCI. It becomes the same [`Capabilities`] that
//! configuration space does; where the text contains a hexadecimal dump, the dump takes precedence.
//! The machine-readable formats (`-m`, `-mm`) and the tree (`-t`) contain no registers: the former tell what a function is and
//! who drives it, the latter which bridge is above it. A text may hold several formats one after another.

mod bus_tree;
mod decode;
mod heading;
mod listing;
mod machine;
mod title;

use self::bus_tree::{Node, TreeReader};
use self::heading::Heading;
use self::listing::Listing;
use self::machine::Fields;
use super::capability::Capabilities;
use super::class::ClassCode;
use super::config::ConfigSpace;
use super::header::{BridgeBuses, Header, SubsystemId};
use crate::{Bdf, Citation, Cited, Text};
use std::collections::BTreeMap;

/// Size of extended configuration space; longer dumps are cut there.
const CONFIG_BYTES_MAX: usize = 4096;

/// One function in the output of lspci.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Address; domain 0 where the text has no domains.
    pub bdf: Bdf,
    /// The record's first line.
    pub at: Citation,
    /// The format that it was first told in.
    pub format: Format,
    /// Class Code. Printed with `-n` or `-nn`, or a dump.
    pub class: Option<ClassCode>,
    /// Name of the class.
    pub class_name: Option<String>,
    /// Vendor ID. Printed with `-n` or `-nn`, or in a dump.
    pub vendor: Option<u16>,
    /// Device ID: likewise.
    pub device: Option<u16>,
    /// Vendor's and device's name, which lspci does not separate.
    pub name: Option<String>,
    /// Revision ID; lspci leaves 0 out.
    pub revision: Option<u8>,
    /// Subsystem IDs: need `-n` or `-nn`, or a dump.
    pub subsystem: Option<SubsystemId>,
    /// Name of the subsystem.
    pub subsystem_name: Option<String>,
    /// The platform's name for the slot.
    pub physical_slot: Option<String>,
    /// Driver in use.
    pub driver: Option<Cited<String>>,
    /// Whether a driver in use would be printed: a short line shows none.
    pub shows_driver: bool,
    /// Modules that could drive it.
    pub modules: Vec<String>,
    /// NUMA node. lspci omits it if the kernel knows none.
    pub numa_node: Option<Cited<u32>>,
    /// IOMMU group.
    pub iommu_group: Option<Cited<u32>>,
    /// Bus Master Enable.
    pub bus_master: Option<bool>,
    /// Bus numbers, of PCI-to-PCI bridges.
    pub buses: Option<BridgeBuses>,
    /// Its memory (BARs).
    pub memory: Vec<Cited<MemoryRegion>>,
    /// lspci was not permitted to read the capabilities.
    pub access_denied: bool,
    /// The capabilities, as far as the text shows them.
    pub capabilities: Capabilities,
    /// Configuration space, if the text contains a dump of it.
    pub config: Vec<u8>,
    /// The line of each register, by lspci's name for it.
    pub registers: BTreeMap<String, Citation>,
}

impl Record {
    /// The line that `register` (lspci's name: `DevCtl`, `LnkSta`, `ACSCtl` ...) was read from; the
    /// record's first line if it has none of its own.
    pub fn cite(&self, register: &str) -> &Citation {
        self.registers.get(register).unwrap_or(&self.at)
    }
}

/// Memory behind a Base Address Register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRegion {
    /// First address, as the CPU sees it.
    pub base: u64,
    /// Length, at least 1.
    pub size_bytes: u64,
}

/// What lspci was asked to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A paragraph or a line for each function, for people.
    Listing,
    /// Fields, for programs: `-m` and `-mm`.
    MachineReadable,
    /// The tree of bridges: `-t`.
    Tree,
}

impl Format {
    /// The format in which a line begins to tell of a function, or of a tree of them.
    pub fn of(line: &str) -> Option<Self> {
        if machine::address(line).is_some() {
            Some(Self::MachineReadable)
        } else if bus_tree::is_root(line) {
            Some(Self::Tree)
        } else {
            Heading::parse(line).map(|_| Self::Listing)
        }
    }
}

/// Parses all records, in the order of the text. Lines that belong to no record are skipped.
pub fn parse(text: &Text) -> Vec<Record> {
    let mut parser = Parser { text, tree: TreeReader::default(), open: None, records: Vec::new() };
    for (number, line) in text.lines() {
        parser.take(number, line);
    }
    // A text that was cut in its last line has no line break behind it.
    let is_cut_off = parser.is_within_capability() || !text.body().ends_with('\n');
    parser.close();
    if let Some(last) = parser.records.last_mut().filter(|_| is_cut_off) {
        last.shows_driver = last.driver.is_some() || !last.modules.is_empty();
    }
    mark_shown_drivers(&mut parser.records);
    parser.records
}

/// Marks all machine-readable records if one of them shows a driver or a module: then lspci was run with `-k`, and a record
/// without any is of a function without a driver.
fn mark_shown_drivers(records: &mut [Record]) {
    let is_machine_readable = |record: &Record| record.format == Format::MachineReadable;
    let shows_any = |record: &Record| record.driver.is_some() || !record.modules.is_empty();
    if records.iter().any(|record| is_machine_readable(record) && shows_any(record)) {
        let marked = records.iter_mut().filter(|record| is_machine_readable(record));
        marked.for_each(|record| record.shows_driver = true);
    }
}

/// Reads a text line by line.
struct Parser<'a> {
    text: &'a Text,
    tree: TreeReader,
    /// The function that lines are about.
    open: Option<Open<'a>>,
    records: Vec<Record>,
}

/// A function while its lines are read.
struct Open<'a> {
    told: Told<'a>,
    /// Its hexadecimal dump.
    dump: Vec<u8>,
}

/// What is told of a function, by the format of the text.
enum Told<'a> {
    Listing(Lines<'a>),
    MachineReadable(Fields),
}

impl<'a> Parser<'a> {
    /// Takes a line.
    fn take(&mut self, number: u32, line: &'a str) {
        let nodes = self.tree.read(line);
        if line.trim().is_empty() {
            self.close();
            self.tree.end();
        } else if !nodes.is_empty() {
            self.close();
            self.records.extend(nodes.into_iter().map(|node| node_record(self.text, number, line, &node)));
        } else if line.starts_with([' ', '\t']) {
            if let Some(Open { told: Told::Listing(lines), .. }) = &mut self.open {
                lines.body.push((number, line));
            }
        } else if let Some(fields) = Fields::begin(self.text, number, line) {
            self.begin(Told::MachineReadable(fields));
        } else if let Some(heading) = Heading::parse(line).or_else(|| Heading::parse_address(line)) {
            self.begin(Told::Listing(Lines { heading, first: (number, line), body: Vec::new() }));
        } else if let Some(open) = &mut self.open {
            if let Told::MachineReadable(fields) = &mut open.told {
                fields.push(self.text, number, line);
            }
            append_dump_row(line, &mut open.dump);
        }
    }

    /// Whether the last line is one of a capability's: the line on the driver would follow, and may be cut off.
    fn is_within_capability(&self) -> bool {
        let Some(Open { told: Told::Listing(lines), .. }) = &self.open else { return false };
        let indent = |(_, line): &(u32, &str)| line.len() - line.trim_start().len();
        lines.body.first().zip(lines.body.last()).is_some_and(|(first, last)| indent(last) > indent(first))
    }

    /// Begins a function.
    fn begin(&mut self, told: Told<'a>) {
        self.close();
        self.open = Some(Open { told, dump: Vec::new() });
    }

    /// Ends the function that lines were about.
    fn close(&mut self) {
        let Some(Open { told, dump }) = self.open.take() else { return };
        let mut record = match told {
            Told::Listing(lines) => lines.parse(self.text),
            Told::MachineReadable(fields) => fields.into_record(),
        };
        record.config = dump;
        record.complete_from_dump();
        self.records.push(record);
    }
}

/// The record of a function in a tree.
fn node_record(text: &Text, number: u32, line: &str, node: &Node<'_>) -> Record {
    let (name, ids) = node.name.map_or((None, None), heading::name_and_ids);
    let primary = node.address.bus;
    Record {
        vendor: ids.map(|(vendor, _)| vendor),
        device: ids.map(|(_, device)| device),
        name: name.map(str::to_owned),
        buses: node.buses.map(|(secondary, subordinate)| BridgeBuses { primary, secondary, subordinate }),
        format: Format::Tree,
        ..Record::new(node.address, text.cite(number, line))
    }
}

/// Whether a line can belong to a record or a tree that was begun: it is indented, empty, a field, or a row of a dump.
pub fn continues_record(line: &str) -> bool {
    let is_row = line.split_once(": ").is_some_and(|(offset, row)| {
        offset.len() <= 3
            && offset.bytes().all(|byte| byte.is_ascii_hexdigit())
            && row.split_whitespace().all(|byte| hex::<u8>(byte, 2).is_some())
    });
    line.is_empty() || line.starts_with([' ', '\t']) || is_row || is_field(line)
}

/// Whether a line is a field of the machine-readable format.
pub fn is_field(line: &str) -> bool {
    machine::field(line).is_some()
}

/// The function that a command asks for, `lspci -vvs 08:00.0`: its first line is often cut off.
pub fn asked_for(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let mut flags =
        words.by_ref().filter_map(|word| word.strip_prefix('-')).filter(|flags| !flags.starts_with('-'));
    let (_, rest) = flags.find_map(|flags| flags.split_once('s'))?;
    let address = if rest.is_empty() { words.next()? } else { rest };
    heading::parse_full_address(address).map(|_| address)
}

/// Records of the same function joined into one, in the order of their first appearance. A text may hold a short list and
/// the details of one function after it.
pub fn joined(records: Vec<Record>) -> Vec<Record> {
    let mut places: BTreeMap<Bdf, usize> = BTreeMap::new();
    let mut joined: Vec<Record> = Vec::new();
    for record in records {
        match places.get(&record.bdf).and_then(|place| joined.get_mut(*place)) {
            Some(known) => known.complete(record),
            None => {
                places.insert(record.bdf, joined.len());
                joined.push(record);
            }
        }
    }
    joined
}

/// The addresses of all functions that a text tells of, as often as it does.
pub fn addresses(text: &str) -> impl Iterator<Item = Bdf> {
    let mut tree = TreeReader::default();
    text.lines().flat_map(move |line| {
        let first = machine::address(line).or_else(|| Heading::parse(line).map(|heading| heading.bdf));
        tree.read(line).into_iter().map(|node| node.address).chain(first)
    })
}

/// Appends a row of a dump, such as `40: 11 80 40 80`. A row whose offset does not continue the dump is ignored.
fn append_dump_row(line: &str, dump: &mut Vec<u8>) {
    let Some((offset, row)) = line.split_once(": ") else { return };
    if usize::from_str_radix(offset, 16) != Ok(dump.len()) || dump.len() >= CONFIG_BYTES_MAX {
        return;
    }
    let bytes: Option<Vec<u8>> = row.split_whitespace().take(16).map(|byte| hex(byte, 2)).collect();
    dump.extend(bytes.unwrap_or_default());
}

/// `Memory at fd200000 (64-bit, prefetchable) [size=2M]`; with `-vv` after `Region 0: `.
fn memory(text: &Text, line: u32, words: &str) -> Option<Cited<MemoryRegion>> {
    let (_, rest) = words.split_once("Memory at ")?;
    let (address, rest) = rest.split_once(' ')?;
    let size = rest.split_once("[size=")?.1.split(']').next()?;
    let (base, size_bytes) = (u64::from_str_radix(address, 16).ok()?, size_bytes(size)?);
    // Neither empty nor beyond 64 bits.
    base.checked_add(size_bytes.checked_sub(1)?)?;
    Some(Cited::new(MemoryRegion { base, size_bytes }, text.cite(line, words.trim())))
}

/// The number in `[size=2M]`.
fn size_bytes(size: &str) -> Option<u64> {
    let suffixes = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let suffix = suffixes.into_iter().find(|(letter, _)| size.ends_with(*letter));
    let (digits, shift) = suffix.map_or((size, 0), |(letter, shift)| (size.trim_end_matches(letter), shift));
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a number of exactly so many hexadecimal digits.
fn hex<T: TryFrom<u32>>(digits: &str, count: usize) -> Option<T> {
    let plain = digits.len() == count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()?.try_into().ok()).flatten()
}

/// Whether this can be the name of a driver, which is a folder of sysfs.
fn is_driver(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

/// The lines of one record.
struct Lines<'a> {
    heading: Heading<'a>,
    first: (u32, &'a str),
    body: Vec<(u32, &'a str)>,
}

impl Lines<'_> {
    /// Parses the record.
    fn parse(self, text: &Text) -> Record {
        let listing = Listing::new(&self.body);
        let heading = &self.heading;
        let named_interface = heading.interface.or(listing.is_verbose().then_some(0));
        let mut record = Record {
            class: heading.class.map(|class| ClassCode { interface: named_interface, ..class }),
            class_name: heading.class_name.map(str::to_owned),
            vendor: heading.ids.map(|(vendor, _)| vendor),
            device: heading.ids.map(|(_, device)| device),
            name: heading.name.map(str::to_owned),
            revision: heading.revision,
            physical_slot: listing.field("Physical Slot").map(|(_, slot)| slot.to_owned()),
            driver: listing
                .field("Kernel driver in use")
                .filter(|(_, driver)| is_driver(driver))
                .map(|(line, driver)| Cited::new(driver.to_owned(), text.cite(line, driver))),
            modules: modules(&listing),
            numa_node: listing.number("NUMA node").map(|(line, all, n)| Cited::new(n, text.cite(line, all))),
            iommu_group: listing
                .number("IOMMU group")
                .map(|(line, all, n)| Cited::new(n, text.cite(line, all))),
            bus_master: bus_master(&listing),
            buses: listing.field("Bus").and_then(|(_, buses)| heading::buses(buses)),
            memory: self.body.iter().filter_map(|(line, words)| memory(text, *line, words)).collect(),
            access_denied: listing.is_denied(),
            capabilities: decode::capabilities(&listing),
            registers: listing.cite(text),
            ..Record::new(heading.bdf, text.cite(self.first.0, self.first.1))
        };
        if let Some(subsystem) = listing.subsystem() {
            (record.subsystem, record.subsystem_name) = heading::subsystem(subsystem);
        }
        record.shows_driver = record.has_details();
        record
    }
}

impl Record {
    /// The record of a function of which nothing else is known.
    fn new(bdf: Bdf, at: Citation) -> Self {
        Self {
            bdf,
            at,
            format: Format::Listing,
            class: None,
            class_name: None,
            vendor: None,
            device: None,
            name: None,
            revision: None,
            subsystem: None,
            subsystem_name: None,
            physical_slot: None,
            driver: None,
            shows_driver: false,
            modules: Vec::new(),
            numa_node: None,
            iommu_group: None,
            bus_master: None,
            memory: Vec::new(),
            buses: None,
            access_denied: false,
            capabilities: Capabilities::default(),
            config: Vec::new(),
            registers: BTreeMap::new(),
        }
    }

    /// Whether it has more than its first line.
    fn has_details(&self) -> bool {
        self.bus_master.is_some()
            || self.driver.is_some()
            || self.subsystem_name.is_some()
            || self.subsystem.is_some()
            || !self.modules.is_empty()
    }

    /// Whether both may be of one function: no ID and no name of theirs differ.
    pub fn may_be(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_none_or(|(one, other)| one == other)
        }
        // Names change with the database, so they are compared only where neither shows IDs.
        let by_ids = self.vendor.is_some() || other.vendor.is_some();
        let ids = agree(self.vendor.as_ref(), other.vendor.as_ref())
            && agree(self.device.as_ref(), other.device.as_ref());
        ids && (by_ids || agree(self.name.as_ref(), other.name.as_ref()))
    }

    /// Adds what another record of the same function says and this one does not.
    fn complete(&mut self, other: Self) {
        self.class = self.class.or(other.class);
        self.class_name = self.class_name.take().or(other.class_name);
        self.vendor = self.vendor.or(other.vendor);
        self.device = self.device.or(other.device);
        self.name = self.name.take().or(other.name);
        self.revision = self.revision.or(other.revision);
        self.subsystem = self.subsystem.or(other.subsystem);
        self.subsystem_name = self.subsystem_name.take().or(other.subsystem_name);
        self.physical_slot = self.physical_slot.take().or(other.physical_slot);
        self.driver = self.driver.take().or(other.driver);
        self.shows_driver |= other.shows_driver;
        if self.modules.is_empty() {
            self.modules = other.modules;
        }
        self.numa_node = self.numa_node.take().or(other.numa_node);
        self.iommu_group = self.iommu_group.take().or(other.iommu_group);
        self.bus_master = self.bus_master.or(other.bus_master);
        if self.memory.is_empty() {
            self.memory = other.memory;
        }
        self.buses = self.buses.or(other.buses);
        self.access_denied &= other.access_denied;
        self.capabilities = std::mem::take(&mut self.capabilities).or(other.capabilities);
        if self.config.is_empty() {
            self.config = other.config;
        }
        for (register, at) in other.registers {
            self.registers.entry(register).or_insert(at);
        }
    }

    /// Replaces fields by those of the hexadecimal dump, where the dump contains them.
    fn complete_from_dump(&mut self) {
        if self.config.is_empty() {
            return;
        }
        let config = ConfigSpace::new(&self.config);
        let header = Header::decode(config);
        self.vendor = header.vendor.or(self.vendor);
        self.device = header.device.or(self.device);
        self.class = header.class.or(self.class);
        self.revision = header.revision.or(self.revision);
        self.subsystem = header.subsystem.or(self.subsystem);
        self.bus_master = header.bus_master.or(self.bus_master);
        self.buses = header.buses.or(self.buses);
        self.capabilities = Capabilities::decode(config).or(std::mem::take(&mut self.capabilities));
    }
}

/// The names in the line `Kernel modules: a, b`.
fn modules(listing: &Listing<'_>) -> Vec<String> {
    let line = listing.field("Kernel modules").map(|(_, modules)| modules).unwrap_or_default();
    line.split(',').map(str::trim).filter(|module| !module.is_empty()).map(str::to_owned).collect()
}

/// Bus Master Enable, from `Control: ... BusMaster+` (`-vv`) or `Flags: bus master, ...` (`-v`).
fn bus_master(listing: &Listing<'_>) -> Option<bool> {
    if let Some((_, control)) = listing.field("Control") {
        return decode::flag(control, "BusMaster");
    }
    let (_, flags) = listing.field("Flags")?;
    Some(flags.split(',').any(|flag| flag.trim() == "bus master"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::express::{PayloadSize, PortType};
    use crate::image::{dump, stored};
    use crate::{Kind, LinkSpeed, LinkWidth, Presence};
    use proptest::prelude::*;

    const SWITCHED: &str = include_str!("../tests/functions/lspci-switched.txt");

    fn records(body: &str) -> Vec<Record> {
        parse(&Text::new("sos_commands/pci/lspci_-nnvv", body))
    }

    fn one(body: &str) -> Record {
        let records = records(body);
        let [record] = records.as_slice() else { panic!("{records:?}") };
        record.clone()
    }

    #[test]
    fn headings() {
        let named = one("3b:00.0 Ethernet controller: Mellanox Technologies MT27800 Family [ConnectX-5]\n");
        assert_eq!(named.bdf.to_string(), "0000:3b:00.0");
        assert_eq!(named.class_name.as_deref(), Some("Ethernet controller"));
        assert_eq!(named.name.as_deref(), Some("Mellanox Technologies MT27800 Family [ConnectX-5]"));
        assert_eq!((named.class, named.vendor), (None, None));

        let both = one(
            "10000:e1:00.0 Non-Volatile memory controller [0108]: Intel Corporation NVMe Datacenter SSD [8086:0a54] (rev 02) (prog-if 02 [NVM Express])\n",
        );
        assert_eq!(both.bdf.domain, 0x10000);
        assert_eq!(both.class, ClassCode::parse("010802"));
        assert_eq!((both.vendor, both.device, both.revision), (Some(0x8086), Some(0x0a54), Some(2)));
        assert_eq!(both.name.as_deref(), Some("Intel Corporation NVMe Datacenter SSD"));

        let numbers = one("0001:00:00.0 0604: 1014:03dc (rev 01)\n");
        assert_eq!((numbers.vendor, numbers.device), (Some(0x1014), Some(0x03dc)));
        assert_eq!(numbers.class.map(ClassCode::kind), Some(Kind::Bridge));
        assert_eq!((numbers.class_name, numbers.name), (None, None));
    }

    #[test]
    fn a_record_without_its_first_line_and_titles() {
        let short = one(
            "08:00.0\n\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x8, ASPM not supported\n\t\tLnkSta:\tSpeed 8GT/s, Width x2 (downgraded)\n",
        );
        assert_eq!((short.class_name.as_deref(), short.shows_driver), (None, false));
        let Presence::Present(express) = &short.capabilities.express else { panic!("{short:?}") };
        assert_eq!((express.link.width_max, express.link.width), (LinkWidth::new(8), LinkWidth::new(2)));
        assert_eq!(short.capabilities.aer, Presence::Unknown);
        assert_eq!(short.cite("LnkSta").line, Some(3));
    }

    #[test]
    fn memory_of_a_function() {
        let region = MemoryRegion { base: 0xfd20_0000, size_bytes: 2 << 20 };
        for line in [
            "\tMemory at fd200000 (64-bit, prefetchable) [size=2M]\n",
            "\tRegion 0: Memory at fd200000 (32-bit, non-prefetchable) [size=2M]\n",
        ] {
            let found: Vec<MemoryRegion> = one(&format!("03:00.0 Ethernet controller: x\n{line}"))
                .memory
                .iter()
                .map(|cited| cited.value)
                .collect();
            assert_eq!(found, [region], "{line}");
        }
        for line in [
            "\tMemory at <unassigned> (64-bit) [disabled]\n",
            "\tI/O ports at e000 [size=32]\n",
            "\tMemory at fd200000 (64-bit) [size=0]\n",
            "\tMemory at ffffffffffff0000 (64-bit) [size=16777216T]\n",
        ] {
            assert_eq!(one(&format!("03:00.0 Ethernet controller: x\n{line}")).memory, [], "{line}");
        }
    }

    #[test]
    fn other_lines() {
        for body in [
            "",
            "-[0000:00]-\n",
            "pcilib: Cannot open /proc/bus/pci\n",
            "lspci: Unable to load libkmod resources: error -2\n",
            "3b:00.8 Ethernet controller: x\n",
            "\tKernel driver in use: nvme\n",
            "12:30.5\n",
        ] {
            assert_eq!(records(body), [], "{body}");
        }
    }

    #[test]
    fn a_text_of_several_formats() {
        let body = "-[0000:00]---01.0-[3b]----00.0  Maker Model [15b3:1017]\n\n\
            Slot:\t3b:00.0\nClass:\tEthernet controller [0200]\nVendor:\tMaker [15b3]\nDevice:\tModel [1017]\n\
            Driver:\tmlx5_core\nIOMMUGroup:\t26\n\n\
            3b:00.0 Ethernet controller: Maker Model (rev 01)\n\
            00:1f.0 \"ISA bridge\" \"Maker\" \"Bridge\" -p00 \"\" \"\"\n00: 86 80 34 12\n";
        let formats: Vec<Format> = records(body).iter().map(|record| record.format).collect();
        use Format::{Listing, MachineReadable, Tree};
        assert_eq!(formats, [Tree, Tree, MachineReadable, Listing, MachineReadable]);
        assert_eq!(addresses(body).count(), 5);
        let joined = joined(records(body));
        let [port, nic, isa] = joined.as_slice() else { panic!("{joined:?}") };
        assert_eq!(port.buses, Some(BridgeBuses { primary: 0, secondary: 0x3b, subordinate: 0x3b }));
        assert_eq!((nic.vendor, nic.revision), (Some(0x15b3), Some(1)));
        assert_eq!(nic.name.as_deref(), Some("Maker Model"));
        assert_eq!(nic.class, ClassCode::parse("0200"));
        assert_eq!(nic.iommu_group.as_ref().map(|group| (group.value, group.at.line)), Some((26, Some(8))));
        assert_eq!((isa.vendor, isa.device), (Some(0x8086), Some(0x1234)));
        // Some function's driver is shown, so that of all is.
        assert!(nic.shows_driver && isa.shows_driver && !port.shows_driver);
    }

    #[test]
    fn a_text_that_was_cut_in_its_last_line_says_nothing_of_a_driver() {
        let text = "3b:00.0 Ethernet controller: x\n\tFlags: bus master, fast devsel, latency 0\n\tKernel driver in use: ";
        let record = one(text);
        assert_eq!((record.driver.is_some(), record.shows_driver), (false, false));
        let whole = one("3b:00.0 Ethernet controller: x\n\tFlags: bus master, fast devsel, latency 0\n");
        assert!(whole.shows_driver);
    }

    #[test]
    fn a_reader_without_privilege() {
        let record = one("3b:00.0 Ethernet controller [0200]: Mellanox Technologies MT27800 [15b3:1017]\n\
             \tSubsystem: Mellanox Technologies Device [15b3:0007]\n\
             \tFlags: bus master, fast devsel, latency 0, IRQ 38, NUMA node 1, IOMMU group 26\n\
             \tMemory at 38000000000 (64-bit, prefetchable) [size=32M]\n\
             \tCapabilities: <access denied>\n\
             \tKernel driver in use: mlx5_core\n\
             \tKernel modules: mlx5_core, mlx5_ib\n");
        assert!(record.access_denied);
        assert_eq!(record.capabilities, Capabilities::default());
        assert_eq!(record.driver.as_ref().map(|driver| driver.value.as_str()), Some("mlx5_core"));
        assert_eq!(record.driver.unwrap().at.line, Some(6));
        assert_eq!(record.modules, ["mlx5_core", "mlx5_ib"]);
        assert_eq!(record.numa_node.map(|node| node.value), Some(1));
        assert_eq!(record.iommu_group.map(|group| (group.value, group.at.line)), Some((26, Some(3))));
        assert_eq!(record.subsystem, Some(SubsystemId { vendor: 0x15b3, device: 7 }));
        assert_eq!(record.bus_master, Some(true));
        assert_eq!(record.class.and_then(|class| class.interface), Some(0));
    }

    #[test]
    fn a_plain_list_knows_no_capabilities() {
        let record =
            one("00:1f.2 SATA controller: Intel Corporation 82801IR\n\tSubsystem: Red Hat, Inc. QEMU\n");
        assert_eq!(record.capabilities, Capabilities::default());
        assert_eq!(record.subsystem_name.as_deref(), Some("Red Hat, Inc. QEMU"));
        assert_eq!(record.bus_master, None);
    }

    #[test]
    fn a_device_without_capabilities() {
        let record = one("00:00.0 Host bridge: Intel Corporation 82G33\n\
             \tControl: I/O+ Mem+ BusMaster- SpecCycle-\n\
             \tStatus: Cap- 66MHz- UDF-\n");
        assert_eq!(record.bus_master, Some(false));
        assert!(record.capabilities.express.is_absent() && record.capabilities.ats.is_absent());
    }

    #[test]
    fn a_switched_adapter() {
        let records = records(SWITCHED);
        let [root, up, down, nic] = records.as_slice() else { panic!("{}", records.len()) };
        assert_eq!(root.buses, Some(BridgeBuses { primary: 0x3a, secondary: 0x3b, subordinate: 0x3d }));
        assert_eq!(root.physical_slot.as_deref(), Some("4"));
        let ports: Vec<PortType> =
            records.iter().map(|r| r.capabilities.express.get().unwrap().port.unwrap()).collect();
        assert_eq!(
            ports,
            [PortType::RootPort, PortType::UpstreamPort, PortType::DownstreamPort, PortType::Endpoint]
        );

        let slot = root.capabilities.express.get().unwrap().slot.clone().unwrap();
        assert_eq!((slot.number, slot.hot_plug, slot.hot_plug_surprise), (Some(4), Some(true), Some(false)));
        assert_eq!(slot.occupied, Some(true));
        let express = nic.capabilities.express.get().unwrap();
        assert_eq!(express.device.payload_max, Some(PayloadSize::B512));
        assert_eq!(express.device.payload, Some(PayloadSize::B256));
        assert_eq!(express.device.read_request, Some(PayloadSize::B512));
        assert_eq!(express.device.relaxed_ordering_enabled, Some(true));
        assert_eq!(express.device.no_snoop_enabled, Some(false));
        assert_eq!(
            (express.link.speed_max, express.link.speed),
            (Some(LinkSpeed::Gt16), Some(LinkSpeed::Gt8))
        );
        assert_eq!((express.link.width_max, express.link.width), (LinkWidth::new(16), LinkWidth::new(8)));
        assert_eq!(nic.cite("LnkSta").line, Some(80));
        assert!(
            nic.cite("LnkSta").text.starts_with("LnkSta: Speed 8GT/s (downgraded), Width x8 (downgraded)")
        );
        assert!(nic.cite("DevCtl").text.contains("MaxPayload 256 bytes, MaxReadReq 512 bytes"));
        assert_eq!(nic.cite("SltCap"), &nic.at);
        let sriov = nic.capabilities.sriov.get().unwrap();
        assert_eq!((sriov.enabled, sriov.total, sriov.number), (Some(true), Some(8), Some(4)));
        let ats = nic.capabilities.ats.get().unwrap();
        assert_eq!((ats.enabled, ats.invalidate_queue_depth), (Some(true), Some(32)));
        assert_eq!(nic.capabilities.msi_x.get().unwrap().vectors, Some(64));
        assert!(nic.capabilities.msi.is_absent() && nic.capabilities.acs.is_absent());
        assert_eq!(nic.numa_node.as_ref().map(|node| node.value), Some(1));

        let acs = down.capabilities.acs.get().unwrap();
        assert_eq!(acs.enabled.isolate(), Some(false));
        assert_eq!(acs.supported.isolate(), Some(true));
        assert_eq!(up.capabilities.acs, Presence::Absent);
    }

    #[test]
    fn the_way_to_a_switched_adapter() {
        use crate::link::{LimitingEnd, LinkComparison, diagnose_path, hops_on};
        use crate::{BusTree, LinkEnd};
        let records = records(SWITCHED);
        let tree = BusTree::new(records.iter().filter_map(|record| Some((record.bdf, record.buses?))));
        let nic = records[3].bdf;
        let mut way = tree.bridges_above(nic);
        way.push(nic);
        let ends: Vec<(LinkEnd, PortType)> = way
            .iter()
            .filter_map(|&at| {
                let express = records.iter().find(|record| record.bdf == at)?.capabilities.express.get()?;
                Some((LinkEnd::from_registers(at, express), express.port?))
            })
            .collect();
        let path = diagnose_path(&hops_on(&ends));
        assert_eq!(path.hops.len(), 2);
        assert!(!path.hops[0].is_degraded());
        // lspci calls the adapter downgraded; it is the port that cannot do more than x8 at 8 GT/s.
        assert_eq!((path.hops[1].speed, path.hops[1].width), (LinkComparison::Full, LinkComparison::Full));
        assert_eq!(
            (path.hops[1].speed_limit, path.hops[1].width_limit),
            (LimitingEnd::Upper, LimitingEnd::Upper)
        );
        assert_eq!(path.narrowest, Some(1));
    }

    #[test]
    fn a_dump_is_believed_first() {
        let bytes = stored(include_str!("../tests/functions/nvme-ppc-endpoint.config"));
        let text = |bytes: &[u8]| {
            format!(
                "00:03.0 Ethernet controller [0200]: Nobody [dead:beef]\n\
                 \tControl: I/O- Mem- BusMaster-\n\
                 \tCapabilities: [80] Express (v2) Root Port (Slot-), MSI 00\n\
                 \tCapabilities: [100 v1] Address Translation Service (ATS)\n\
                 \t\tATSCtl:\tEnable+, Smallest Translation Unit: 00\n{}\n",
                dump(bytes)
            )
        };
        let whole = one(&text(&bytes));
        assert_eq!(whole.config, bytes);
        assert_eq!((whole.vendor, whole.bus_master), (Some(0x1b36), Some(true)));
        assert_eq!(whole.class, ClassCode::parse("010802"));
        assert_eq!(whole.capabilities, Capabilities::decode(ConfigSpace::new(&bytes)));
        // What a shorter dump does not reach, the text may tell.
        let short = one(&text(&bytes[..256]));
        assert_eq!(short.capabilities.express, whole.capabilities.express);
        assert_eq!(short.capabilities.ats.get().unwrap().enabled, Some(true));
    }

    #[test]
    fn broken_dumps() {
        let dump = |rows: &str| one(&format!("00:03.0 Host bridge: x\n{rows}")).config;
        assert_eq!(dump("00: 36 1b\n02: 10 00\n"), [0x36, 0x1b, 0x10, 0]);
        assert_eq!(dump("00: 36 1b\n10: 10 00\n"), [0x36, 0x1b]);
        assert_eq!(dump("00: 36 xx\n"), [0u8; 0]);
        assert_eq!(dump("00: é\n"), [0u8; 0]);
    }

    proptest! {
        #[test]
        fn any_text(body in "[ -~\t\né]{0,600}") {
            assert!(addresses(&body).count() >= records(&body).len(), "{body}");
            let _ = records(&body);
        }

        #[test]
        fn any_mangling(at in 0usize..8000, with in "[ -~\t\n]{0,30}", cut in 0usize..200) {
            let mut body = SWITCHED.to_owned();
            let at = at % body.len();
            let end = (at + cut).min(body.len());
            if body.is_char_boundary(at) && body.is_char_boundary(end) {
                body.replace_range(at..end, &with);
            }
            let _ = records(&body);
        }
    }
}
