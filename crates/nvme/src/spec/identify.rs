//! Identify data structures of controllers and namespaces (Base, 5.17.2; NVM, 4.1.5).

use super::field::{number, write_number};

/// Bytes of an Identify structure.
pub const STRUCTURE_BYTES: usize = 4096;

/// An Identify structure, encoded.
pub type Structure = [u8; STRUCTURE_BYTES];

/// Identify Controller data, the fields used here. [`crate::Controller`] drives a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// PCI vendor ID (VID).
    pub vendor: u16,
    /// Serial number (SN).
    pub serial: String,
    /// Model number (MN).
    pub model: String,
    /// Firmware revision (FR).
    pub firmware: String,
    /// Log2 of the most pages of the smallest size in one transfer; 0 for no limit (MDTS).
    pub transfer_pages_shift: u8,
    /// Highest possible NSID (NN).
    pub namespaces_max: u32,
    /// Most namespaces that can be allocated; 0 if that is [`namespaces_max`](Self::namespaces_max) (MNAN).
    pub allocated_max: u32,
    /// Identifier of the controller in its subsystem (CNTLID).
    pub controller: u16,
    /// Namespaces can be created, deleted, attached and detached (OACS).
    pub can_manage_namespaces: bool,
    /// Bytes of the controller's media; 0 if it does not say (TNVMCAP).
    pub capacity_bytes: u128,
    /// Bytes that no namespace has; 0 also if the controller does not say (UNVMCAP).
    pub unallocated_bytes: u128,
    /// Compare is supported (ONCS).
    pub can_compare: bool,
    /// Dataset Management is supported (ONCS).
    pub can_deallocate: bool,
    /// Write Zeroes is supported (ONCS).
    pub can_write_zeroes: bool,
    /// Verify is supported (ONCS).
    pub can_verify: bool,
    /// Copy is supported (ONCS).
    pub can_copy: bool,
    /// Formats of a Copy's source ranges, a bit each (OCFS).
    pub copy_formats: u16,
    /// There is a volatile write cache: completed writes may be lost without a flush (VWC).
    pub has_write_cache: bool,
    /// SGLs are supported, with no or with dword alignment (SGLS).
    pub has_sgl: bool,
    /// Most Abort commands in flight (ACL).
    pub aborts_max: u16,
    /// Entries of the error log (ELPE).
    pub error_log_entries: u16,
    /// Firmware can be downloaded and committed (OACS).
    pub can_update_firmware: bool,
    /// Device Self-test is supported (OACS).
    pub can_self_test: bool,
    /// How firmware is updated.
    pub firmware_updates: FirmwareUpdates,
    /// Composite temperature above which the controller warns, in kelvins; 0 if it does not say (WCTEMP).
    pub warning_temperature_k: u16,
    /// Composite temperature above which the controller may shut down, in kelvins; 0 if it does not say (CCTEMP).
    pub critical_temperature_k: u16,
    /// Nominal time of an extended self-test, in minutes; 0 if the controller does not say (EDSTT).
    pub extended_test_minutes: u16,
    /// NVMe Qualified Name of the subsystem, whose controllers may share namespaces; empty if it says none (SUBNQN).
    pub subsystem: String,
}

/// What a controller says of its firmware slots and updates (FRMW, FWUG, MTFA).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FirmwareUpdates {
    /// Firmware slots, 1 to 7. A controller that says 0 does not follow the specification.
    pub slots: u8,
    /// Slot 1 can't be written.
    pub is_first_read_only: bool,
    /// An image can be activated without a reset.
    pub activates_without_reset: bool,
    /// Size and alignment of an image's parts, in units of 4 KiB; 0 if the controller does not say, 255 if any is accepted (FWUG).
    pub granularity: u8,
    /// Longest pause while an image is activated without a reset, in units of 100 ms; 0 if the controller does not say (MTFA).
    pub activation_time_max: u16,
}

/// Place of TNVMCAP.
const CAPACITY: usize = 280;
/// Place of UNVMCAP.
const UNALLOCATED: usize = 296;
/// Bytes of SUBNQN, which ends with a zero byte.
const SUBSYSTEM_BYTES: usize = 256;
/// Unit of FWUG.
const GRANULARITY_BYTES: usize = 4096;

impl FirmwareUpdates {
    /// Bytes of which the image and each of its parts must be multiples; `None` if there is no such restriction.
    pub fn granularity_bytes(&self) -> Option<usize> {
        match self.granularity {
            0 | 0xff => None,
            units => Some(usize::from(units) * GRANULARITY_BYTES),
        }
    }

    /// Whether an image can be written to a slot.
    pub fn can_write_slot(&self, slot: u8) -> bool {
        (1..=self.slots).contains(&slot) && !(slot == 1 && self.is_first_read_only)
    }

    /// Decodes FRMW, FWUG and MTFA.
    fn read(bytes: &Structure) -> Self {
        let flags = bytes[260];
        Self {
            slots: flags >> 1 & 7,
            is_first_read_only: flags & 1 == 1,
            activates_without_reset: flags >> 4 & 1 == 1,
            granularity: bytes[319],
            activation_time_max: u16_at(bytes, 270),
        }
    }

    /// Encodes FRMW, FWUG and MTFA.
    fn write(&self, bytes: &mut Structure) {
        bytes[260] = u8::from(self.is_first_read_only)
            | (self.slots & 7) << 1
            | u8::from(self.activates_without_reset) << 4;
        bytes[319] = self.granularity;
        bytes[270..272].copy_from_slice(&self.activation_time_max.to_le_bytes());
    }
}

impl Controller {
    /// Most namespaces that can be allocated at once: MNAN, which may be 0 where it is NN.
    pub fn allocatable_max(&self) -> u32 {
        match self.allocated_max {
            0 => self.namespaces_max,
            allocated_max => allocated_max.min(self.namespaces_max),
        }
    }

    /// Decodes the structure.
    pub fn read(bytes: &Structure) -> Self {
        let commands = u16_at(bytes, 520);
        Self {
            vendor: u16_at(bytes, 0),
            serial: text(&bytes[4..24]),
            model: text(&bytes[24..64]),
            firmware: text(&bytes[64..72]),
            subsystem: text(&bytes[768..768 + SUBSYSTEM_BYTES]),
            transfer_pages_shift: bytes[77],
            namespaces_max: u32_at(bytes, 516),
            allocated_max: u32_at(bytes, 540),
            controller: u16_at(bytes, 78),
            can_manage_namespaces: bytes[256] >> 3 & 1 == 1,
            capacity_bytes: number::<16>(bytes, CAPACITY),
            unallocated_bytes: number::<16>(bytes, UNALLOCATED),
            can_compare: commands & 1 == 1,
            can_deallocate: commands >> 2 & 1 == 1,
            can_write_zeroes: commands >> 3 & 1 == 1,
            can_verify: commands >> 7 & 1 == 1,
            can_copy: commands >> 8 & 1 == 1,
            copy_formats: u16_at(bytes, 534),
            has_write_cache: bytes[525] & 1 == 1,
            has_sgl: matches!(u32_at(bytes, 536) & 3, 1 | 2),
            aborts_max: u16::from(bytes[258]) + 1,
            error_log_entries: u16::from(bytes[262]) + 1,
            can_update_firmware: bytes[256] >> 2 & 1 == 1,
            can_self_test: bytes[256] >> 4 & 1 == 1,
            firmware_updates: FirmwareUpdates::read(bytes),
            warning_temperature_k: u16_at(bytes, 266),
            critical_temperature_k: u16_at(bytes, 268),
            extended_test_minutes: u16_at(bytes, 316),
        }
    }

    /// Encodes the structure, for emulated controllers.
    pub fn write(&self) -> Structure {
        let mut bytes = [0; STRUCTURE_BYTES];
        bytes[..2].copy_from_slice(&self.vendor.to_le_bytes());
        write_padded(&mut bytes[4..24], &self.serial);
        write_padded(&mut bytes[24..64], &self.model);
        write_padded(&mut bytes[64..72], &self.firmware);
        let name = self.subsystem.as_bytes();
        let name = &name[..name.len().min(SUBSYSTEM_BYTES - 1)];
        bytes[768..768 + name.len()].copy_from_slice(name);
        bytes[77] = self.transfer_pages_shift;
        bytes[256] = u8::from(self.can_update_firmware) << 2
            | u8::from(self.can_manage_namespaces) << 3
            | u8::from(self.can_self_test) << 4;
        bytes[78..80].copy_from_slice(&self.controller.to_le_bytes());
        write_number(&mut bytes, CAPACITY, 16, self.capacity_bytes);
        write_number(&mut bytes, UNALLOCATED, 16, self.unallocated_bytes);
        bytes[540..544].copy_from_slice(&self.allocated_max.to_le_bytes());
        self.firmware_updates.write(&mut bytes);
        bytes[266..268].copy_from_slice(&self.warning_temperature_k.to_le_bytes());
        bytes[268..270].copy_from_slice(&self.critical_temperature_k.to_le_bytes());
        bytes[316..318].copy_from_slice(&self.extended_test_minutes.to_le_bytes());
        bytes[258] = self.aborts_max.saturating_sub(1) as u8;
        bytes[262] = self.error_log_entries.saturating_sub(1) as u8;
        // SQES and CQES: entries of exactly 64 and 16 bytes.
        (bytes[512], bytes[513]) = (0x66, 0x44);
        bytes[516..520].copy_from_slice(&self.namespaces_max.to_le_bytes());
        let commands = u16::from(self.can_compare)
            | u16::from(self.can_deallocate) << 2
            | u16::from(self.can_write_zeroes) << 3
            | u16::from(self.can_verify) << 7
            | u16::from(self.can_copy) << 8;
        bytes[520..522].copy_from_slice(&commands.to_le_bytes());
        bytes[525] = self.has_write_cache.into();
        bytes[534..536].copy_from_slice(&self.copy_formats.to_le_bytes());
        bytes[536] = self.has_sgl.into();
        bytes
    }
}

/// Identify Namespace data, the fields used here. [`crate::Namespace`] is a disk of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Size in logical blocks (NSZE).
    pub blocks: u64,
    /// Log2 of the bytes of a logical block (LBADS).
    pub block_shift: u8,
    /// Bytes of metadata per block (MS).
    pub metadata_bytes: u16,
    /// Several controllers, of this host or of others, may attach it at once (NMIC, bit 0).
    pub is_shared: bool,
    /// What one Copy takes, if the controller supports that.
    pub copy_limits: CopyLimits,
    /// Names that no other namespace has.
    pub names: NamespaceNames,
}

/// What names a namespace globally; zeros where it has no such name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamespaceNames {
    /// NGUID.
    pub nguid: [u8; 16],
    /// EUI64.
    pub eui64: [u8; 8],
}

impl NamespaceNames {
    /// Decodes NGUID and EUI64.
    fn read(bytes: &Structure) -> Self {
        let mut names = Self::default();
        names.nguid.copy_from_slice(&bytes[104..120]);
        names.eui64.copy_from_slice(&bytes[120..128]);
        names
    }

    /// Encodes NGUID and EUI64.
    fn write(&self, bytes: &mut Structure) {
        bytes[104..120].copy_from_slice(&self.nguid);
        bytes[120..128].copy_from_slice(&self.eui64);
    }
}

/// Limits of one Copy command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyLimits {
    /// Most blocks of a source range (MSSRL).
    pub range_blocks_max: u16,
    /// Most blocks of all source ranges (MCL).
    pub blocks_max: u32,
    /// Most source ranges (MSRC, which is zero-based).
    pub ranges_max: u16,
}

impl CopyLimits {
    /// Decodes MSSRL, MCL and MSRC.
    fn read(bytes: &Structure) -> Self {
        Self {
            range_blocks_max: u16_at(bytes, 74),
            blocks_max: u32_at(bytes, 76),
            ranges_max: u16::from(bytes[80]) + 1,
        }
    }

    /// Encodes MSSRL, MCL and MSRC.
    fn write(&self, bytes: &mut Structure) {
        bytes[74..76].copy_from_slice(&self.range_blocks_max.to_le_bytes());
        bytes[76..80].copy_from_slice(&self.blocks_max.to_le_bytes());
        bytes[80] = self.ranges_max.clamp(1, 256).wrapping_sub(1) as u8;
    }
}

/// Supported LBA data sizes, 512 bytes to 64 KiB. A larger value is a fault of the controller.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 9..=16;

impl Namespace {
    /// Decodes the structure. `None` if the namespace is inactive or its LBA format is unsupported.
    pub fn read(bytes: &Structure) -> Option<Self> {
        let format = u32_at(bytes, 128 + 4 * usize::from(lba_format(bytes)));
        let namespace = Self {
            blocks: u64_at(bytes, 0),
            block_shift: (format >> 16) as u8,
            metadata_bytes: format as u16,
            is_shared: bytes[30] & 1 == 1,
            copy_limits: CopyLimits::read(bytes),
            names: NamespaceNames::read(bytes),
        };
        let is_there = namespace.blocks > 0 && BLOCK_SHIFTS.contains(&namespace.block_shift);
        (is_there && namespace.blocks.checked_mul(namespace.block_bytes()).is_some()).then_some(namespace)
    }

    /// Encodes the structure with this LBA format only, for emulated controllers.
    pub fn write(&self) -> Structure {
        let mut bytes = [0; STRUCTURE_BYTES];
        for place in [0, 8, 16] {
            bytes[place..place + 8].copy_from_slice(&self.blocks.to_le_bytes());
        }
        bytes[30] = self.is_shared.into();
        self.copy_limits.write(&mut bytes);
        self.names.write(&mut bytes);
        let format = u32::from(self.metadata_bytes) | u32::from(self.block_shift) << 16;
        bytes[128..132].copy_from_slice(&format.to_le_bytes());
        bytes
    }

    /// Bytes of a logical block.
    #[inline]
    pub fn block_bytes(&self) -> u64 {
        1 << self.block_shift
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes()
    }
}

/// Type of a namespace identification descriptor: the command set (CSI).
const COMMAND_SET: u8 = 4;

/// The command set of a namespace, by its identification descriptors (Base, 5.17.2.3). The NVM command set if none says it.
pub fn command_set(descriptors: &Structure) -> u8 {
    let mut left = &descriptors[..];
    while let [kind, length, _, _, rest @ ..] = left {
        match (*kind, rest) {
            (0, _) => break,
            (COMMAND_SET, [command_set, ..]) => return *command_set,
            _ => left = rest.get(usize::from(*length)..).unwrap_or_default(),
        }
    }
    0
}

/// Encodes the identification descriptors of a namespace that tell only its command set, for emulated controllers.
pub(crate) fn write_descriptors(command_set: u8) -> Structure {
    let mut bytes = [0; STRUCTURE_BYTES];
    (bytes[0], bytes[1], bytes[4]) = (COMMAND_SET, 1, command_set);
    bytes
}

/// The LBA format that a namespace has, by its Identify data (FLBAS).
pub(crate) fn lba_format(bytes: &Structure) -> u8 {
    bytes[26] & 0xf | bytes[26] >> 1 & 0x30
}

/// NSIDs of a Namespace List.
pub fn active_namespaces(bytes: &Structure) -> impl Iterator<Item = u32> {
    let numbers = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    numbers.take_while(|number| *number != 0)
}

/// An ASCII field without its trailing blanks. Other characters are dropped.
pub(crate) fn text(bytes: &[u8]) -> String {
    let printable = bytes.iter().filter(|byte| (b' '..=b'~').contains(byte));
    printable.map(|byte| char::from(*byte)).collect::<String>().trim().to_owned()
}

/// Writes a text, padded with spaces.
pub(super) fn write_padded(into: &mut [u8], text: &str) {
    into.fill(b' ');
    into.iter_mut().zip(text.bytes()).for_each(|(into, byte)| *into = byte);
}

/// The little-endian 16-bit number at an offset.
fn u16_at(bytes: &Structure, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The little-endian 32-bit number at an offset.
fn u32_at(bytes: &Structure, at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// The little-endian 64-bit number at an offset.
fn u64_at(bytes: &Structure, at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_values_are_read_back(
            blocks in 1_u64..1 << 40, block_shift in 9_u8..=16, metadata_bytes: u16, is_shared: bool,
            texts in prop::array::uniform3("[!-~][ -~]{0,6}[!-~]"), numbers: (u16, u8, u32), flags: [bool; 7],
            few: (u8, u8), global: ([u8; 16], [u8; 8]), subsystem in "[!-~]{0,255}", upkeep: ([bool; 4], u8, u8, [u16; 4]),
            managed: (bool, u16, u32, u128, u128), copy: (u16, u32, u8, u16),
        ) {
            let copy_limits =
                CopyLimits { range_blocks_max: copy.0, blocks_max: copy.1, ranges_max: u16::from(copy.2) + 1 };
            let names = NamespaceNames { nguid: global.0, eui64: global.1 };
            let namespace = Namespace { blocks, block_shift, metadata_bytes, is_shared, copy_limits, names };
            prop_assert_eq!(Namespace::read(&namespace.write()), Some(namespace));
            let [serial, model, firmware] = texts;
            let [can_compare, can_deallocate, can_write_zeroes, can_verify, can_copy, has_write_cache, has_sgl] = flags;
            let controller = Controller {
                vendor: numbers.0,
                serial,
                model,
                firmware,
                transfer_pages_shift: numbers.1,
                namespaces_max: numbers.2,
                allocated_max: managed.2,
                controller: managed.1,
                can_manage_namespaces: managed.0,
                capacity_bytes: managed.3,
                unallocated_bytes: managed.4,
                can_compare,
                can_deallocate,
                can_write_zeroes,
                can_verify,
                can_copy,
                copy_formats: copy.3,
                has_write_cache,
                has_sgl,
                aborts_max: u16::from(few.0) + 1,
                error_log_entries: u16::from(few.1) + 1,
                can_update_firmware: upkeep.0[0],
                can_self_test: upkeep.0[1],
                firmware_updates: FirmwareUpdates {
                    slots: upkeep.1 & 7,
                    is_first_read_only: upkeep.0[2],
                    activates_without_reset: upkeep.0[3],
                    granularity: upkeep.2,
                    activation_time_max: upkeep.3[0],
                },
                warning_temperature_k: upkeep.3[1],
                critical_temperature_k: upkeep.3[2],
                extended_test_minutes: upkeep.3[3],
                subsystem,
            };
            prop_assert_eq!(Controller::read(&controller.write()), controller);
        }

        /// Whatever a controller says, it is read, and no namespace has a size that does not fit.
        #[test]
        fn any_bytes_are_read(words in prop::collection::vec(any::<u8>(), 256), byte: u8) {
            let mut bytes = [byte; STRUCTURE_BYTES];
            bytes[..256].copy_from_slice(&words);
            Controller::read(&bytes);
            if let Some(namespace) = Namespace::read(&bytes) {
                prop_assert!(namespace.bytes() >= 512);
            }
            prop_assert!(active_namespaces(&bytes).count() <= 1024);
            command_set(&bytes);
        }
    }

    #[test]
    fn fields_of_upkeep_are_where_the_specification_has_them() {
        let mut bytes = [0; STRUCTURE_BYTES];
        // OACS, FRMW, WCTEMP, CCTEMP, MTFA, EDSTT, FWUG (Base, 5.17.2).
        (bytes[256], bytes[260]) = (1 << 4 | 1 << 2, 1 | 3 << 1 | 1 << 4);
        (bytes[266], bytes[267], bytes[268], bytes[270]) = (0x57, 1, 0x61, 20);
        (bytes[316], bytes[319]) = (35, 2);
        let controller = Controller::read(&bytes);
        assert!(controller.can_update_firmware && controller.can_self_test);
        let updates = FirmwareUpdates {
            slots: 3,
            is_first_read_only: true,
            activates_without_reset: true,
            granularity: 2,
            activation_time_max: 20,
        };
        assert_eq!(controller.firmware_updates, updates);
        assert_eq!((controller.warning_temperature_k, controller.critical_temperature_k), (0x157, 0x61));
        assert_eq!(controller.extended_test_minutes, 35);
        assert_eq!(updates.granularity_bytes(), Some(8192));
        let any = |granularity| FirmwareUpdates { granularity, ..updates }.granularity_bytes();
        assert_eq!([0, 255, 254].map(any), [None, None, Some(254 << 12)]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|slot| updates.can_write_slot(slot)),
            [false, false, true, true, false]
        );
    }

    #[test]
    fn fields_of_namespace_management_are_where_the_specification_has_them() {
        let mut bytes = [0; STRUCTURE_BYTES];
        // CNTLID, OACS, TNVMCAP, UNVMCAP, MNAN.
        (bytes[78], bytes[79], bytes[256]) = (2, 1, 1 << 3);
        (bytes[280], bytes[295], bytes[296], bytes[311], bytes[540]) = (4, 1, 5, 2, 32);
        let controller = Controller::read(&bytes);
        assert!(controller.can_manage_namespaces && !controller.can_update_firmware);
        assert_eq!((controller.controller, controller.allocated_max), (0x102, 32));
        assert_eq!(controller.capacity_bytes, 1 << 120 | 4);
        assert_eq!(controller.unallocated_bytes, 2 << 120 | 5);
    }

    #[test]
    fn a_command_set_is_found_behind_other_descriptors() {
        assert_eq!(command_set(&write_descriptors(2)), 2);
        let mut bytes = [0; STRUCTURE_BYTES];
        // EUI64, UUID, and the command set.
        (bytes[0], bytes[1], bytes[12], bytes[13]) = (1, 8, 3, 16);
        assert_eq!(command_set(&bytes), 0, "none says it");
        (bytes[32], bytes[33], bytes[36]) = (4, 1, 2);
        assert_eq!(command_set(&bytes), 2);
    }

    #[test]
    fn optional_commands_are_where_the_specification_has_them() {
        let mut bytes = [0; STRUCTURE_BYTES];
        let commands = |bytes: &Structure| {
            let controller = Controller::read(bytes);
            [controller.can_compare, controller.can_deallocate, controller.can_verify, controller.can_copy]
        };
        for (at, bit, expected) in [
            (520, 0, [true, false, false, false]),
            (520, 2, [false, true, false, false]),
            (520, 7, [false, false, true, false]),
            (521, 0, [false, false, false, true]),
        ] {
            bytes[at] = 1 << bit;
            assert_eq!(commands(&bytes), expected);
            bytes[at] = 0;
        }
        (bytes[534], bytes[535]) = (3, 1);
        assert_eq!(Controller::read(&bytes).copy_formats, 0x103);
    }

    #[test]
    fn limits_of_a_copy_are_where_the_specification_has_them() {
        let mut bytes = namespace(9).write();
        // MSSRL, MCL and MSRC (NVM, 4.1.5.1).
        (bytes[74], bytes[75], bytes[76], bytes[79], bytes[80]) = (128, 1, 7, 1, 127);
        let limits = CopyLimits { range_blocks_max: 0x180, blocks_max: 0x100_0007, ranges_max: 128 };
        assert_eq!(Namespace::read(&bytes).map(|namespace| namespace.copy_limits), Some(limits));
    }

    /// A namespace of 9 blocks.
    fn namespace(block_shift: u8) -> Namespace {
        let copy_limits = CopyLimits::default();
        let names = NamespaceNames::default();
        Namespace { blocks: 9, block_shift, metadata_bytes: 0, is_shared: false, copy_limits, names }
    }

    #[test]
    fn a_format_beyond_the_first_sixteen_is_found() {
        let mut bytes = namespace(9).write();
        // Format 17: low bits in 3:0, high ones in 6:5.
        bytes[26] = 1 | 1 << 5;
        bytes[128 + 4 * 17 + 2] = 12;
        assert_eq!(Namespace::read(&bytes).map(|namespace| namespace.block_bytes()), Some(4096));
        bytes[128 + 4 * 17 + 2] = 8;
        assert_eq!(Namespace::read(&bytes), None);
    }
}
