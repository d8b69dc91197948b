//! Identify data structures of controllers and namespaces (Base, 5.17.2; NVM, 4.1.5).

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
    /// Compare is supported (ONCS).
    pub can_compare: bool,
    /// Dataset Management is supported (ONCS).
    pub can_deallocate: bool,
    /// Write Zeroes is supported (ONCS).
    pub can_write_zeroes: bool,
    /// There is a volatile write cache: completed writes may be lost without a flush (VWC).
    pub has_write_cache: bool,
    /// SGLs are supported, with no or with dword alignment (SGLS).
    pub has_sgl: bool,
    /// Most Abort commands in flight (ACL).
    pub aborts_max: u16,
    /// Entries of the error log (ELPE).
    pub error_log_entries: u16,
}

impl Controller {
    /// Decodes the structure.
    pub fn read(bytes: &Structure) -> Self {
        let commands = u16_at(bytes, 520);
        Self {
            vendor: u16_at(bytes, 0),
            serial: text(&bytes[4..24]),
            model: text(&bytes[24..64]),
            firmware: text(&bytes[64..72]),
            transfer_pages_shift: bytes[77],
            namespaces_max: u32_at(bytes, 516),
            can_compare: commands & 1 == 1,
            can_deallocate: commands >> 2 & 1 == 1,
            can_write_zeroes: commands >> 3 & 1 == 1,
            has_write_cache: bytes[525] & 1 == 1,
            has_sgl: matches!(u32_at(bytes, 536) & 3, 1 | 2),
            aborts_max: u16::from(bytes[258]) + 1,
            error_log_entries: u16::from(bytes[262]) + 1,
        }
    }

    /// Encodes the structure, for emulated controllers.
    pub fn write(&self) -> Structure {
        let mut bytes = [0; STRUCTURE_BYTES];
        bytes[..2].copy_from_slice(&self.vendor.to_le_bytes());
        write_padded(&mut bytes[4..24], &self.serial);
        write_padded(&mut bytes[24..64], &self.model);
        write_padded(&mut bytes[64..72], &self.firmware);
        bytes[77] = self.transfer_pages_shift;
        bytes[258] = self.aborts_max.saturating_sub(1) as u8;
        bytes[262] = self.error_log_entries.saturating_sub(1) as u8;
        // SQES and CQES: entries of exactly 64 and 16 bytes.
        (bytes[512], bytes[513]) = (0x66, 0x44);
        bytes[516..520].copy_from_slice(&self.namespaces_max.to_le_bytes());
        let commands = u16::from(self.can_compare)
            | u16::from(self.can_deallocate) << 2
            | u16::from(self.can_write_zeroes) << 3;
        bytes[520..522].copy_from_slice(&commands.to_le_bytes());
        bytes[525] = self.has_write_cache.into();
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
}

/// Supported LBA data sizes, 512 bytes to 64 KiB. A larger value is a fault of the controller.
const BLOCK_SHIFTS: std::ops::RangeInclusive<u8> = 9..=16;

impl Namespace {
    /// Decodes the structure. `None` if the namespace is inactive or its LBA format is unsupported.
    pub fn read(bytes: &Structure) -> Option<Self> {
        let chosen = usize::from(bytes[26] & 0xf | bytes[26] >> 1 & 0x30);
        let format = u32_at(bytes, 128 + 4 * chosen);
        let namespace = Self {
            blocks: u64_at(bytes, 0),
            block_shift: (format >> 16) as u8,
            metadata_bytes: format as u16,
            is_shared: bytes[30] & 1 == 1,
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

/// NSIDs of an Active Namespace ID list.
pub fn active_namespaces(bytes: &Structure) -> impl Iterator<Item = u32> {
    let numbers = bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    numbers.take_while(|number| *number != 0)
}

/// An ASCII field without its trailing blanks. Other characters are dropped.
fn text(bytes: &[u8]) -> String {
    let printable = bytes.iter().filter(|byte| (b' '..=b'~').contains(byte));
    printable.map(|byte| char::from(*byte)).collect::<String>().trim().to_owned()
}

/// Writes a text, padded with spaces.
fn write_padded(into: &mut [u8], text: &str) {
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
            names in prop::array::uniform3("[!-~][ -~]{0,6}[!-~]"), numbers: (u16, u8, u32), flags: [bool; 5],
            few: (u8, u8),
        ) {
            let namespace = Namespace { blocks, block_shift, metadata_bytes, is_shared };
            prop_assert_eq!(Namespace::read(&namespace.write()), Some(namespace));
            let [serial, model, firmware] = names;
            let [can_compare, can_deallocate, can_write_zeroes, has_write_cache, has_sgl] = flags;
            let controller = Controller {
                vendor: numbers.0,
                serial,
                model,
                firmware,
                transfer_pages_shift: numbers.1,
                namespaces_max: numbers.2,
                can_compare,
                can_deallocate,
                can_write_zeroes,
                has_write_cache,
                has_sgl,
                aborts_max: u16::from(few.0) + 1,
                error_log_entries: u16::from(few.1) + 1,
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
        }
    }

    #[test]
    fn a_format_beyond_the_first_sixteen_is_found() {
        let mut bytes = Namespace { blocks: 9, block_shift: 9, metadata_bytes: 0, is_shared: false }.write();
        // Format 17: low bits in 3:0, high ones in 6:5.
        bytes[26] = 1 | 1 << 5;
        bytes[128 + 4 * 17 + 2] = 12;
        assert_eq!(Namespace::read(&bytes).map(|namespace| namespace.block_bytes()), Some(4096));
        bytes[128 + 4 * 17 + 2] = 8;
        assert_eq!(Namespace::read(&bytes), None);
    }
}
