//! Management of namespaces: lists of controllers, LBA formats, and what a namespace is created with (Base, "Namespace Management" and
//! "Namespace Attachment"; NVM, 4.1.5 and 4.1.6).

use super::command::{Command, admin};
use super::field::{number, write_number};
use super::identify::{self, STRUCTURE_BYTES, Structure};

/// The NSID that stands for all namespaces. Identify with it tells what all have in common, such as LBA formats.
pub const ALL_NAMESPACES: u32 = u32::MAX;
/// Most controllers of a list.
pub const CONTROLLERS_MAX: usize = STRUCTURE_BYTES / 2 - 1;

/// Namespace Management, SEL.
pub(crate) const CREATE: u32 = 0;
pub(crate) const DELETE: u32 = 1;
/// Namespace Attachment, SEL.
pub(crate) const ATTACH: u32 = 0;
pub(crate) const DETACH: u32 = 1;

/// Number of LBA formats, zero-based (NLBAF).
const FORMATS_COUNT: usize = 25;
/// The format that a namespace has (FLBAS).
const FORMAT_USED: usize = 26;
/// The first LBA format (LBAF0).
const FORMATS: usize = 128;
/// Most LBA formats.
const FORMATS_MAX: usize = 64;

/// An LBA format that a namespace can be created with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaFormat {
    /// Its number, for FLBAS.
    pub number: u8,
    /// Log2 of the bytes of a logical block (LBADS); 0 for a format that is not available.
    pub block_shift: u8,
    /// Bytes of metadata per block (MS).
    pub metadata_bytes: u16,
}

/// The LBA formats in Identify Namespace data.
pub fn lba_formats(bytes: &Structure) -> impl Iterator<Item = LbaFormat> {
    let count = (usize::from(bytes[FORMATS_COUNT]) + 1).min(FORMATS_MAX);
    (0..count).map(|format| {
        let at = FORMATS + 4 * format;
        LbaFormat {
            number: format as u8,
            block_shift: bytes[at + 2],
            metadata_bytes: number::<2>(bytes, at) as u16,
        }
    })
}

/// Writes the LBA formats of these block sizes, and which one a namespace has, for emulated controllers.
pub(crate) fn write_formats(bytes: &mut Structure, block_shifts: &[u8], used: u8) {
    bytes[FORMATS_COUNT] = block_shifts.len().clamp(1, FORMATS_MAX) as u8 - 1;
    bytes[FORMAT_USED] = format_field(used);
    for (format, shift) in block_shifts.iter().take(FORMATS_MAX).enumerate() {
        write_number(bytes, FORMATS + 4 * format, 4, u128::from(*shift) << 16);
    }
}

/// FLBAS of a format: its low four bits in 3:0, the others in 6:5.
fn format_field(number: u8) -> u8 {
    number & 0xf | (number & 0x30) << 1
}

/// What a namespace is created with: the fields that the host sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateFields {
    /// Size in logical blocks (NSZE).
    pub blocks: u64,
    /// Blocks that can be allocated at a time (NCAP). Less than the size is thin provisioning.
    pub capacity_blocks: u64,
    /// Number of the [LBA format](LbaFormat) (FLBAS).
    pub format: u8,
    /// Kind of end-to-end protection, 0 for none (DPS).
    pub protection: u8,
    /// Several controllers may attach it at once (NMIC, bit 0).
    pub is_shared: bool,
}

impl CreateFields {
    /// Decodes the structure.
    pub fn read(bytes: &Structure) -> Self {
        Self {
            blocks: number::<8>(bytes, 0) as u64,
            capacity_blocks: number::<8>(bytes, 8) as u64,
            format: identify::lba_format(bytes),
            protection: bytes[29],
            is_shared: bytes[30] & 1 == 1,
        }
    }

    /// Encodes the structure. All else is zero: no NVM set, endurance group or ANA group is chosen.
    pub fn write(&self) -> Structure {
        let mut bytes = [0; STRUCTURE_BYTES];
        write_number(&mut bytes, 0, 8, self.blocks.into());
        write_number(&mut bytes, 8, 8, self.capacity_blocks.into());
        bytes[FORMAT_USED] = format_field(self.format);
        bytes[29] = self.protection;
        bytes[30] = self.is_shared.into();
        bytes
    }
}

/// The controller identifiers (CNTLID) of a Controller List, at most as many as it says that it has.
pub fn controllers(bytes: &Structure) -> impl Iterator<Item = u16> {
    let count = (number::<2>(bytes, 0) as usize).min(CONTROLLERS_MAX);
    (1..=count).map(|place| number::<2>(bytes, 2 * place) as u16)
}

/// Encodes a Controller List, of at most [`CONTROLLERS_MAX`]. The specification wants them in increasing order.
pub fn write_controllers(controllers: &[u16]) -> Structure {
    let mut bytes = [0; STRUCTURE_BYTES];
    let controllers = &controllers[..controllers.len().min(CONTROLLERS_MAX)];
    write_number(&mut bytes, 0, 2, controllers.len() as u128);
    for (place, controller) in controllers.iter().enumerate() {
        write_number(&mut bytes, 2 * (place + 1), 2, (*controller).into());
    }
    bytes
}

impl Command {
    /// Creates a namespace of the NVM command set with the [fields](CreateFields) in `data`. The result is its NSID.
    pub fn create_namespace(data: [u64; 2]) -> Self {
        Self::new(admin::NAMESPACE_MANAGEMENT, 0, data).with([CREATE.into(), 0, 0])
    }

    /// Deletes a namespace with its data, or all.
    pub fn delete_namespace(namespace: u32) -> Self {
        Self::new(admin::NAMESPACE_MANAGEMENT, namespace, [0; 2]).with([DELETE.into(), 0, 0])
    }

    /// Attaches a namespace to the [controllers](write_controllers) in `data`.
    pub fn attach_namespace(namespace: u32, data: [u64; 2]) -> Self {
        Self::new(admin::NAMESPACE_ATTACHMENT, namespace, data).with([ATTACH.into(), 0, 0])
    }

    /// Detaches a namespace from the [controllers](write_controllers) in `data`.
    pub fn detach_namespace(namespace: u32, data: [u64; 2]) -> Self {
        Self::new(admin::NAMESPACE_ATTACHMENT, namespace, data).with([DETACH.into(), 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_values_are_read_back(
            blocks: u64, capacity_blocks: u64, format in 0_u8..64, protection: u8, is_shared: bool,
            mut ids in prop::collection::vec(any::<u16>(), 0..3000), shifts in prop::collection::vec(9_u8..=16, 1..=64),
        ) {
            let fields = CreateFields { blocks, capacity_blocks, format, protection, is_shared };
            prop_assert_eq!(CreateFields::read(&fields.write()), fields);
            let encoded = write_controllers(&ids);
            ids.truncate(CONTROLLERS_MAX);
            prop_assert_eq!(controllers(&encoded).collect::<Vec<_>>(), ids);
            let mut bytes = [0; STRUCTURE_BYTES];
            write_formats(&mut bytes, &shifts, format);
            let read: Vec<(u8, u8)> = lba_formats(&bytes).map(|one| (one.number, one.block_shift)).collect();
            prop_assert_eq!(read, (0..).zip(shifts).collect::<Vec<_>>());
            prop_assert_eq!(identify::lba_format(&bytes), format);
        }

        /// Whatever a controller says, no list is longer than its structure.
        #[test]
        fn any_bytes_are_read(byte: u8, at in 0..STRUCTURE_BYTES, other: u8) {
            let mut bytes = [byte; STRUCTURE_BYTES];
            bytes[at] = other;
            prop_assert!(controllers(&bytes).count() <= 2047);
            prop_assert!(lba_formats(&bytes).count() <= 64);
            CreateFields::read(&bytes);
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let fields = CreateFields {
            blocks: 0x0102,
            capacity_blocks: 0x0304,
            format: 17,
            protection: 1,
            is_shared: true,
        };
        let mut bytes = [0; STRUCTURE_BYTES];
        // NSZE, NCAP, FLBAS, DPS, NMIC.
        (bytes[0], bytes[1], bytes[8], bytes[9]) = (2, 1, 4, 3);
        (bytes[26], bytes[29], bytes[30]) = (1 | 1 << 5, 1, 1);
        assert_eq!((fields.write(), CreateFields::read(&bytes)), (bytes, fields));
        let mut bytes = [0; STRUCTURE_BYTES];
        (bytes[0], bytes[2], bytes[4], bytes[5]) = (2, 7, 1, 1);
        assert_eq!(write_controllers(&[7, 0x101]), bytes);
        let mut bytes = [0; STRUCTURE_BYTES];
        // NLBAF, and of the second format LBADS and MS.
        (bytes[25], bytes[130], bytes[132], bytes[134]) = (1, 9, 8, 12);
        let formats = [(0, 9, 0), (1, 12, 8)].map(|(number, block_shift, metadata_bytes)| LbaFormat {
            number,
            block_shift,
            metadata_bytes,
        });
        assert_eq!(lba_formats(&bytes).collect::<Vec<_>>(), formats);
    }

    #[test]
    fn commands_have_their_fields() {
        let create = Command::create_namespace([0x1000, 0]);
        assert_eq!(create.0, [0x0d, 0, 0, 0x1000, 0, 0, 0, 0]);
        assert_eq!(Command::delete_namespace(7).0, [0x7_0000_000d, 0, 0, 0, 0, 1, 0, 0]);
        let attach = Command::attach_namespace(7, [0x1000, 0]);
        assert_eq!(attach.0, [0x7_0000_0015, 0, 0, 0x1000, 0, 0, 0, 0]);
        let detach = Command::detach_namespace(7, [0x1000, 0]);
        assert_eq!(detach.0, [0x7_0000_0015, 0, 0, 0x1000, 0, 1, 0, 0]);
    }
}
