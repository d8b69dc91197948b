//! PCI functions as the kernel's log names them, where neither sysfs nor lspci shows them.
//!
//! Three kinds of lines tell something: the PCI core's list of what it found (drivers/pci/probe.c,
//! `pci_setup_device`), its list of bridges, and any line that begins with a driver and an address (`dev_printk`).

use crate::kernel::Log;
use crate::kernel::message::{self, Device, scan};
use crate::pci::{BridgeBuses, ClassCode};
use crate::{Bdf, Citation, Cited};
use std::collections::BTreeMap;

/// The PCI core's own prefix, which it uses as long as no driver is bound.
const CORE: &str = "pci";
/// Drivers of bridges.
const PORT_DRIVERS: [&str; 3] = ["pcieport", "pcieport-driver", "shpchp"];

/// A PCI function that the log names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFunction {
    /// Vendor and Device ID.
    pub ids: Option<(u16, u16)>,
    /// Class Code.
    pub class: Option<ClassCode>,
    /// Bus numbers, of a bridge.
    pub buses: Option<BridgeBuses>,
    /// The driver that last printed a line about it, unless its probe failed since.
    pub driver: Option<Cited<String>>,
    /// The first line that names it.
    pub at: Citation,
}

impl NamedFunction {
    /// A function of which only this line is known.
    pub(super) fn at(at: Citation) -> Self {
        Self { ids: None, class: None, buses: None, driver: None, at }
    }
}

/// Functions by address, of a log; at most `max`, so that a log made up of addresses takes no more memory than a host.
pub(super) fn read(log: &Log<'_>, max: usize) -> BTreeMap<Bdf, NamedFunction> {
    let mut functions: BTreeMap<Bdf, NamedFunction> = BTreeMap::new();
    for record in log.records() {
        let Some(line) = parse(record.message) else { continue };
        if functions.len() >= max && !functions.contains_key(&line.address) {
            continue;
        }
        let at = log.cite(record);
        let function = functions.entry(line.address).or_insert_with(|| NamedFunction::at(at.clone()));
        function.keep(line.says, at);
    }
    functions
}

/// A line about a function.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    address: Bdf,
    says: Says,
}

/// What a line says of its function.
#[derive(Debug, PartialEq, Eq)]
enum Says {
    /// That it is there.
    Present,
    /// Its IDs and class.
    Found((u16, u16), ClassCode),
    /// The buses below it.
    Bridge { secondary: u8, subordinate: u8 },
    /// A driver prints about it.
    Driver(String),
    /// No driver is bound: its probe failed.
    ProbeFailed,
    /// It is how an IOMMU of AMD is configured.
    Iommu,
}

impl NamedFunction {
    /// Keeps what a line says.
    fn keep(&mut self, says: Says, at: Citation) {
        match says {
            Says::Present => {}
            Says::Found(ids, class) => (self.ids, self.class) = (Some(ids), Some(class)),
            Says::Bridge { secondary, subordinate } => {
                self.buses = Some(BridgeBuses { primary: 0, secondary, subordinate });
            }
            Says::Driver(driver) => self.driver = Some(Cited::new(driver, at)),
            Says::ProbeFailed => self.driver = None,
            Says::Iommu => self.class = Some(ClassCode::IOMMU),
        }
    }

    /// Its class: as the kernel printed it, or else that of bridges by their buses or driver.
    pub(super) fn class(&self) -> Option<ClassCode> {
        let is_port = |driver: &Cited<String>| PORT_DRIVERS.contains(&driver.value.as_str());
        let is_bridge = self.buses.is_some() || self.driver.as_ref().is_some_and(is_port);
        self.class.or_else(|| is_bridge.then_some(ClassCode::PCI_BRIDGE))
    }
}

/// The function that a message is about, and what it says of it.
fn parse(message: &str) -> Option<Line> {
    let (device, body) = message::split_device(message);
    let Some(device) = device else {
        let named = parse_nvme(message).or_else(|| parse_probe_failure(message));
        return named.or_else(|| parse_anywhere(message));
    };
    let address = device.bdf?;
    Some(Line { address, says: parse_body(device, body) })
}

/// What the text after the device says.
fn parse_body(device: Device, body: &str) -> Says {
    let found = parse_found(body).or_else(|| parse_bridge(body));
    let failed = body.starts_with("probe with driver ") && body.contains(" failed with error ");
    match found {
        Some(found) => found,
        None if failed => Says::ProbeFailed,
        None if is_of_iommu(body) => Says::Iommu,
        // QEMU begins its own messages with `vfio ADDRESS: `.
        None if device.driver == CORE || device.driver == "vfio" => Says::Present,
        None => Says::Driver(device.driver),
    }
}

/// Whether AMD-Vi's driver prints about the function of an IOMMU: it logs events with the function that caused them.
fn is_of_iommu(body: &str) -> bool {
    let own = ["Found IOMMU", "Extended features", "IOMMU performance counters", "Applying "];
    body.strip_prefix("AMD-Vi: ").is_some_and(|rest| own.iter().any(|start| rest.starts_with(start)))
}

/// `[8086:1521] type 00 class 0x020000`, since 6.9 with `PCIe Endpoint` after it.
fn parse_found(body: &str) -> Option<Says> {
    let (ids, rest) = body.strip_prefix('[')?.split_once("] type ")?;
    let (vendor, device) = ids.split_once(':')?;
    let class = rest.split_once(" class ")?.1.split(' ').next()?;
    let id = |digits: &str| u16::from_str_radix(digits, 16).ok();
    Some(Says::Found((id(vendor)?, id(device)?), ClassCode::parse(class)?))
}

/// `PCI bridge to [bus 01-02]` or `PCI bridge to [bus 01]`.
fn parse_bridge(body: &str) -> Option<Says> {
    let buses = body.strip_prefix("PCI bridge to [bus ")?.split(']').next()?;
    let (secondary, subordinate) = buses.split_once('-').unwrap_or((buses, buses));
    let bus = |digits: &str| u8::from_str_radix(digits, 16).ok();
    Some(Says::Bridge { secondary: bus(secondary)?, subordinate: bus(subordinate)? })
}

/// `fioerr Fusion-io ioScale 0000:08:00.0: failed`, `vfio error: 0000:01:00.0: group 1 is not viable`: a full address before a colon, as
/// drivers and programs word it that do not use the kernel's own form.
fn parse_anywhere(message: &str) -> Option<Line> {
    let is_full = |word: &&str| word.len() >= "0000:00:00.0".len() && word.matches(':').count() == 2;
    let mut words = message.split(' ').filter_map(|word| word.strip_suffix(':')).filter(is_full);
    let address = words.find_map(|word| word.parse().ok())?;
    Some(Line { address, says: Says::Present })
}

/// `nvme nvme0: pci function 0000:05:00.0`.
fn parse_nvme(message: &str) -> Option<Line> {
    let (name, address) = message.strip_prefix("nvme nvme")?.split_once(": pci function ")?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let address = address.trim_end().parse().ok()?;
    is_number.then_some(Line { address, says: Says::Driver("nvme".to_owned()) })
}

/// `vfio-pci: probe of 0000:0b:00.0 failed with error -22`, up to 6.9.
fn parse_probe_failure(message: &str) -> Option<Line> {
    let (_, rest) = scan::split(message, ": probe of ")?;
    let (address, _) = rest.split_once(" failed with error ")?;
    (address.matches(':').count() == 2).then_some(())?;
    Some(Line { address: address.parse().ok()?, says: Says::ProbeFailed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;

    fn functions(log: &str) -> BTreeMap<Bdf, NamedFunction> {
        read(&Log::parse(&Text::new("dmesg", log)), usize::MAX)
    }

    fn one(log: &str) -> NamedFunction {
        let functions = functions(log);
        assert_eq!(functions.len(), 1, "{functions:?}");
        functions.into_values().next().unwrap()
    }

    fn driver(log: &str) -> Option<String> {
        one(log).driver.map(|driver| driver.value)
    }

    #[test]
    fn ids_and_class_from_the_list_of_the_pci_core() {
        for end in ["", " PCIe Endpoint", " conventional PCI endpoint"] {
            let log = format!("[    0.4] pci 0000:03:00.0: [8086:1521] type 00 class 0x020000{end}");
            let found = one(&log);
            assert_eq!((found.ids, found.class), (Some((0x8086, 0x1521)), ClassCode::parse("0x020000")));
            assert_eq!((found.driver, found.at.line), (None, Some(1)));
        }
    }

    #[test]
    fn bridges_by_their_buses_or_their_driver() {
        let bridge = one("pci 0000:00:01.0: PCI bridge to [bus 01-0a]");
        assert_eq!(bridge.buses, Some(BridgeBuses { primary: 0, secondary: 1, subordinate: 0x0a }));
        assert_eq!(bridge.class(), Some(ClassCode::PCI_BRIDGE));
        let port = one("pcieport 0000:00:01.0: AER: enabled with IRQ 25");
        assert_eq!(port.class(), Some(ClassCode::PCI_BRIDGE));
        assert_eq!(one("igb 0000:03:00.0: added PHC on eth0").class(), None);
    }

    #[test]
    fn the_function_of_an_iommu() {
        let iommu = one("pci 0000:00:00.2: AMD-Vi: Found IOMMU cap 0x40");
        assert_eq!(iommu.class(), Some(ClassCode::IOMMU));
        let faulting = one(
            "ahci 0000:63:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0042 address=0x0 flags=0x0020]",
        );
        let driver = faulting.driver.as_ref().map(|driver| driver.value.as_str());
        assert_eq!((faulting.class(), driver), (None, Some("ahci")));
    }

    #[test]
    fn the_last_driver_that_printed_owns_the_function() {
        assert_eq!(driver("pci 0000:03:00.0: enabling device (0140 -> 0142)"), None);
        assert_eq!(driver("igb 0000:03:00.0 eth0: link is up").as_deref(), Some("igb"));
        let log = "igb 0000:03:00.0: x\nvfio-pci 0000:03:00.0: enabling device (0000 -> 0003)";
        assert_eq!(driver(log).as_deref(), Some("vfio-pci"));
        assert_eq!(driver("nvme nvme0: pci function 0000:05:00.0").as_deref(), Some("nvme"));
        // The core prints about a function again when it leaves a group; that unbinds nothing.
        let log = "igb 0000:03:00.0: x\npci 0000:03:00.0: Adding to iommu group 3";
        assert_eq!(driver(log).as_deref(), Some("igb"));
    }

    #[test]
    fn functions_of_nvidias_driver() {
        for log in [
            "NVRM: GPU 0000:3b:00.0: RmInitAdapter",
            "NVRM: GPU at PCI:0000:3b:00: GPU-11111111-2222-3333-4444-555555555555",
            "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        ] {
            assert_eq!(driver(log).as_deref(), Some("nvidia"), "{log}");
        }
        assert!(functions("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15").is_empty());
    }

    #[test]
    fn addresses_that_stand_elsewhere() {
        for log in [
            "fioerr Fusion-io ioScale 3.20TB 0000:08:00.0: failed to map append request",
            "vfio error: 0000:08:00.0: group 1 is not viable",
        ] {
            assert_eq!((one(log).driver, driver(log)), (None, None), "{log}");
        }
        assert!(functions("audit: 0000:08:00 is no address: x").is_empty());
    }

    #[test]
    fn a_driver_whose_probe_failed_owns_nothing() {
        let old = "igb 0000:03:00.0: x\nigb: probe of 0000:03:00.0 failed with error -5";
        assert_eq!(driver(old), None);
        let new = "igb 0000:03:00.0: x\nigb 0000:03:00.0: probe with driver igb failed with error -5";
        assert_eq!(driver(new), None);
    }

    #[test]
    fn lines_about_something_else() {
        for log in [
            "pci_bus 0000:00: root bus resource [bus 00-ff]",
            "arm-smmu-v3 9050000.smmuv3: ias 44-bit",
            "nvme nvme0: 8/0/0 default/read/poll queues",
            "i2c: probe of 3-0050 failed with error -5",
        ] {
            assert_eq!(functions(log), BTreeMap::new(), "{log}");
        }
    }

    #[test]
    fn no_more_functions_than_asked_for() {
        let log: String = (0..9).map(|n| format!("igb 0000:0{n}:00.0: x\n")).collect();
        assert_eq!(read(&Log::parse(&Text::new("dmesg", log)), 3).len(), 3);
    }
}
