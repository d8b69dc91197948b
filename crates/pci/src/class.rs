//! Class codes, and what kind of traffic to expect of a class.

use std::fmt;

/// A Class Code: base class, sub-class, programming interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassCode {
    /// Base class.
    pub base: u8,
    /// Sub-class.
    pub sub: u8,
    /// Programming interface; `None` where only the first two were told.
    pub interface: Option<u8>,
}

/// What a function is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Ethernet and other network controllers.
    Network,
    /// InfiniBand and fabric controllers. Those of Ethernet/InfiniBand adapters show either class.
    Fabric,
    /// Storage controllers.
    Storage(Storage),
    /// Display controllers.
    Display,
    /// Processing accelerators and co-processors.
    Accelerator,
    /// Bridges and switches.
    Bridge,
    /// The function by which an IOMMU is configured, as AMD's show one.
    Iommu,
    /// USB host controllers.
    Usb,
    /// USB4 host interfaces. Thunderbolt controllers before USB4 show the class of system peripherals.
    Thunderbolt,
    /// Audio.
    Audio,
    /// The rest.
    Other,
}

/// Kinds of storage controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Storage {
    /// Non-volatile memory.
    Nvme,
    /// Serial Attached SCSI.
    Sas,
    /// Fibre Channel.
    FibreChannel,
    /// SATA, AHCI or not.
    Sata,
    /// RAID.
    Raid,
    /// Other SCSI, virtio-scsi and virtio-blk among it.
    Scsi,
    /// IDE and ATA.
    Ide,
    /// Universal Flash Storage.
    Ufs,
    /// The rest.
    Other,
}

/// Vendors whose display controllers are a server's console or a hypervisor's, and move little data:
/// ASPEED, Matrox, Silicon Motion, XGI, Cirrus Logic, QEMU standard VGA, Red Hat (QXL, virtio), VMware,
/// Microsoft, Huawei (HiBMC).
const CONSOLE_VENDORS: [u16; 11] =
    [0x1a03, 0x102b, 0x126f, 0x18ca, 0x1013, 0x1234, 0x1af4, 0x1b36, 0x15ad, 0x1414, 0x19e5];

impl ClassCode {
    /// A PCI-to-PCI bridge.
    pub const PCI_BRIDGE: Self = Self { base: 0x06, sub: 0x04, interface: None };
    /// An IOMMU.
    pub const IOMMU: Self = Self { base: 0x08, sub: 0x06, interface: None };

    /// The class in the low 24 bits, as in configuration space.
    pub fn from_bits(bits: u32) -> Self {
        let [interface, sub, base, _] = bits.to_le_bytes();
        Self { base, sub, interface: Some(interface) }
    }

    /// Reads sysfs's `0x010802` and lspci's `0108`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let bits = u32::from_str_radix(digits, 16).ok()?;
        match digits.len() {
            4 => Some(Self { interface: None, ..Self::from_bits(bits << 8) }),
            6 => Some(Self::from_bits(bits)),
            _ => None,
        }
    }

    /// What a function of this class is for.
    pub fn kind(self) -> Kind {
        match (self.base, self.sub) {
            (0x01, sub) => Kind::Storage(Storage::of_sub_class(sub)),
            (0x02, 0x07 | 0x08) | (0x0c, 0x06) => Kind::Fabric,
            (0x02, _) => Kind::Network,
            (0x03, _) => Kind::Display,
            (0x04, 0x01 | 0x03) => Kind::Audio,
            (0x06, _) => Kind::Bridge,
            (0x08, 0x06) => Kind::Iommu,
            (0x0b, 0x40) | (0x12, _) => Kind::Accelerator,
            (0x0c, 0x03) if self.interface == Some(0x40) => Kind::Thunderbolt,
            (0x0c, 0x03) => Kind::Usb,
            (0x0c, 0x04) => Kind::Storage(Storage::FibreChannel),
            _ => Kind::Other,
        }
    }

    /// Whether a function of this class and vendor usually makes so many DMA mappings, or moves so much
    /// data, that the cost of each counts. A hint: the class says nothing about the workload.
    pub fn is_high_rate(self, vendor: Option<u16>) -> bool {
        match self.kind() {
            Kind::Network | Kind::Fabric | Kind::Accelerator => true,
            Kind::Storage(storage) => storage.is_high_rate(),
            Kind::Display => !vendor.is_some_and(|vendor| CONSOLE_VENDORS.contains(&vendor)),
            Kind::Bridge | Kind::Iommu | Kind::Usb | Kind::Thunderbolt | Kind::Audio | Kind::Other => false,
        }
    }
}

impl Storage {
    /// The kind of storage controller, by its sub-class.
    fn of_sub_class(sub: u8) -> Self {
        match sub {
            0x00 => Self::Scsi,
            0x01 | 0x05 => Self::Ide,
            0x04 => Self::Raid,
            0x06 => Self::Sata,
            0x07 => Self::Sas,
            0x08 => Self::Nvme,
            0x09 => Self::Ufs,
            _ => Self::Other,
        }
    }

    /// Whether such controllers do so many I/Os that the cost of each counts.
    fn is_high_rate(self) -> bool {
        match self {
            Self::Nvme | Self::Sas | Self::FibreChannel | Self::Raid | Self::Scsi => true,
            Self::Sata | Self::Ide | Self::Ufs | Self::Other => false,
        }
    }
}

impl fmt::Display for ClassCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}", self.base, self.sub)?;
        self.interface.map_or(Ok(()), |interface| write!(f, "{interface:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kind: Kind, high_rate: bool) {
        let class = ClassCode::parse(text).unwrap();
        assert_eq!((class.kind(), class.is_high_rate(None)), (kind, high_rate), "{text}");
        assert_eq!(class.to_string(), text.trim_start_matches("0x"));
    }

    #[test]
    fn kinds() {
        check("0x010802", Kind::Storage(Storage::Nvme), true);
        check("0108", Kind::Storage(Storage::Nvme), true);
        check("0x010700", Kind::Storage(Storage::Sas), true);
        check("0x010400", Kind::Storage(Storage::Raid), true);
        check("0x010601", Kind::Storage(Storage::Sata), false);
        check("0x0c0400", Kind::Storage(Storage::FibreChannel), true);
        check("0x020000", Kind::Network, true);
        check("0x020700", Kind::Fabric, true);
        check("0x0c0600", Kind::Fabric, true);
        check("0x030200", Kind::Display, true);
        check("0x120000", Kind::Accelerator, true);
        check("0b40", Kind::Accelerator, true);
        check("0x060400", Kind::Bridge, false);
        check("0x0c0330", Kind::Usb, false);
        check("0x0c0340", Kind::Thunderbolt, false);
        check("0x040300", Kind::Audio, false);
        check("0x088000", Kind::Other, false);
    }

    #[test]
    fn a_server_console_is_no_gpu() {
        let vga = ClassCode::parse("0x030000").unwrap();
        assert!(vga.is_high_rate(Some(0x10de)));
        assert!(!vga.is_high_rate(Some(0x1a03)));
    }

    #[test]
    fn not_a_class() {
        for text in ["", "0x", "01", "0x01080", "0x01080200", "+10802", "class"] {
            assert_eq!(ClassCode::parse(text), None, "{text}");
        }
    }
}
