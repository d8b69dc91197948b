//! The configuration header: who a function is, and which buses a bridge leads to.

use super::capability_id::conventional;
use super::class::ClassCode;
use super::config::{ConfigSpace, Reach};

/// Vendor and device of a card, as its maker numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubsystemId {
    /// Subsystem Vendor ID.
    pub vendor: u16,
    /// Subsystem ID.
    pub device: u16,
}

impl SubsystemId {
    /// The card of these registers. Parts without them read zeros or ones.
    pub(super) fn of_registers(vendor: u16, device: u16) -> Option<Self> {
        (vendor != 0 && vendor != 0xffff).then_some(Self { vendor, device })
    }
}

/// Fields of the header's first 64 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// How much of configuration space the header was read with.
    pub reach: Reach,
    /// Vendor ID; `None` also for virtual functions, which do not show theirs.
    pub vendor: Option<u16>,
    /// Device ID; likewise.
    pub device: Option<u16>,
    /// Class Code.
    pub class: Option<ClassCode>,
    /// Revision ID.
    pub revision: Option<u8>,
    /// Memory Space Enable of Command.
    pub memory_enabled: Option<bool>,
    /// Bus Master Enable of Command: without it there is no DMA.
    pub bus_master: Option<bool>,
    /// Layout of the rest.
    pub layout: Option<Layout>,
    /// Other functions may exist at this device number.
    pub multi_function: Option<bool>,
    /// Subsystem IDs; bridges keep them in a capability.
    pub subsystem: Option<SubsystemId>,
    /// Bus numbers, of PCI-to-PCI and CardBus bridges.
    pub buses: Option<BridgeBuses>,
}

/// Header Type, without its multi-function bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Type 0: all but bridges.
    Device,
    /// Type 1: PCI-to-PCI bridge.
    Bridge,
    /// Type 2: CardBus bridge.
    CardBus,
    /// Anything else.
    Other(u8),
}

/// The buses of a PCI-to-PCI or CardBus bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BridgeBuses {
    /// The bus that it sits on.
    pub primary: u8,
    /// The bus directly below.
    pub secondary: u8,
    /// The highest bus below.
    pub subordinate: u8,
}

impl Header {
    /// Decodes what the bytes reach.
    pub fn decode(config: ConfigSpace<'_>) -> Self {
        let answering = |value: u16| config.answers() && value != 0xffff;
        let command = config.u16(0x04).filter(|_| config.answers());
        let header_type = config.u8(0x0e).filter(|_| config.answers());
        let layout = header_type.map(|value| Layout::decode(value & 0x7f));
        Self {
            reach: config.reach(),
            vendor: config.u16(0).filter(|&id| answering(id)),
            device: config.u16(2).filter(|&id| answering(id)),
            class: config.u32(0x08).filter(|_| config.answers()).map(|word| ClassCode::from_bits(word >> 8)),
            revision: config.u8(0x08).filter(|_| config.answers()),
            memory_enabled: command.map(|bits| bits & 0x2 != 0),
            bus_master: command.map(|bits| bits & 0x4 != 0),
            layout,
            multi_function: header_type.map(|value| value & 0x80 != 0),
            subsystem: layout.and_then(|layout| subsystem(config, layout)),
            buses: layout.filter(|&layout| layout.has_buses()).and_then(|_| buses(config)),
        }
    }
}

impl Layout {
    fn decode(value: u8) -> Self {
        match value {
            0 => Self::Device,
            1 => Self::Bridge,
            2 => Self::CardBus,
            other => Self::Other(other),
        }
    }

    /// Whether it has bus numbers. Those of CardBus bridges are at the offsets of PCI-to-PCI bridges.
    fn has_buses(self) -> bool {
        matches!(self, Self::Bridge | Self::CardBus)
    }
}

/// The subsystem's vendor and device ID, where this layout has them.
fn subsystem(config: ConfigSpace<'_>, layout: Layout) -> Option<SubsystemId> {
    let at = match layout {
        Layout::Device => 0x2c,
        Layout::Bridge => 4 + *config.capabilities().find(conventional::SUBSYSTEM).get()?,
        Layout::CardBus => 0x40,
        Layout::Other(_) => return None,
    };
    let registers = config.structure(at);
    let word = |offset| u16::try_from(registers.word(offset)?).ok();
    SubsystemId::of_registers(word(0)?, word(2)?)
}

/// The bus numbers of a bridge.
fn buses(config: ConfigSpace<'_>) -> Option<BridgeBuses> {
    Some(BridgeBuses {
        primary: config.u8(0x18)?,
        secondary: config.u8(0x19)?,
        subordinate: config.u8(0x1a)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Image, stored};

    const NVME: &str = include_str!("../tests/functions/nvme-x86-integrated.config");

    #[test]
    fn nvme_controller() {
        let bytes = stored(NVME);
        for length in [64, 256, 4096] {
            let header = Header::decode(ConfigSpace::new(&bytes[..length]));
            assert_eq!((header.vendor, header.device), (Some(0x1b36), Some(0x0010)));
            assert_eq!(header.class, Some(ClassCode::from_bits(0x01_0802)));
            assert_eq!(header.revision, Some(2));
            assert_eq!(header.bus_master, Some(true));
            assert_eq!(header.layout, Some(Layout::Device));
            assert_eq!(header.subsystem, Some(SubsystemId { vendor: 0x1af4, device: 0x1100 }));
            assert_eq!(header.buses, None);
        }
    }

    #[test]
    fn bridge() {
        let bytes = Image::bridge(0, 0x3a, 0x3d)
            .capability(0x0d, &[0, 0, 0xd9, 0x15, 0x34, 0x12])
            .set(0x0e, &[0x81])
            .bytes();
        let header = Header::decode(ConfigSpace::new(&bytes));
        let buses = BridgeBuses { primary: 0, secondary: 0x3a, subordinate: 0x3d };
        assert_eq!((header.layout, header.buses), (Some(Layout::Bridge), Some(buses)));
        assert_eq!(header.multi_function, Some(true));
        assert_eq!(header.subsystem, Some(SubsystemId { vendor: 0x15d9, device: 0x1234 }));
        let short = Header::decode(ConfigSpace::new(&bytes[..64]));
        assert_eq!((short.buses, short.subsystem), (Some(buses), None));
    }

    #[test]
    fn cardbus_bridge() {
        let bytes =
            Image::bridge(0x1c, 0x1d, 0x20).set(0x0e, &[2]).set(0x40, &[0xd9, 0x15, 0x34, 0x12]).bytes();
        let header = Header::decode(ConfigSpace::new(&bytes));
        let buses = BridgeBuses { primary: 0x1c, secondary: 0x1d, subordinate: 0x20 };
        assert_eq!((header.layout, header.buses), (Some(Layout::CardBus), Some(buses)));
        assert_eq!(header.subsystem, Some(SubsystemId { vendor: 0x15d9, device: 0x1234 }));
    }

    #[test]
    fn an_absent_function_has_no_header() {
        let header = Header::decode(ConfigSpace::new(&[0xff; 64]));
        assert_eq!((header.vendor, header.class, header.layout), (None, None, None));
        assert_eq!(header.bus_master, None);
        let empty = Header::decode(ConfigSpace::new(&[]));
        assert_eq!((empty.vendor, empty.class), (None, None));
    }
}
