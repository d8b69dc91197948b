//! A function's configuration space, as far as it could be read, and its capability lists.

use super::capability_id::conventional;
use super::presence::Presence;
use serde::Serialize;

/// Bytes that any user may read (`PCI_STD_HEADER_SIZEOF`).
const HEADER_BYTES: usize = 64;
/// Bytes of conventional configuration space (`PCI_CFG_SPACE_SIZE`).
const CONVENTIONAL_BYTES: usize = 256;
/// First offset of extended configuration space.
const EXTENDED_START: u16 = 0x100;

const STATUS: usize = 0x06;
const STATUS_CAP_LIST: u16 = 0x10;
const HEADER_TYPE: usize = 0x0e;
/// `PCI_CAPABILITY_LIST`, header types 0 and 1.
const CAPABILITY_POINTER: usize = 0x34;
/// `PCI_CB_CAPABILITY_LIST`, header type 2.
const CAPABILITY_POINTER_CARDBUS: usize = 0x14;

/// `PCI_X_STATUS_266MHZ | PCI_X_STATUS_533MHZ`: PCI-X mode 2, which has extended space.
const PCI_X_MODE_2: u32 = 0xc000_0000;

/// How much of configuration space was readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ConfigReach"))]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The header, at most 64 bytes: all that Linux shows without `CAP_SYS_ADMIN`.
    Header,
    /// Up to 256 bytes: also the conventional capability list.
    Conventional,
    /// More than 256 bytes: also extended capabilities.
    Extended,
}

/// The bytes of one function's configuration space from offset 0. There may be fewer than the function has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigSpace<'a> {
    bytes: &'a [u8],
}

/// One entry of a capability list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Capability ID; conventional and extended IDs are separate number spaces.
    pub id: u16,
    /// Version of an extended capability; 0 for a conventional one, whose header has none.
    pub version: u8,
    /// Offset of the structure in configuration space, in bytes.
    pub offset: u16,
}

/// Why the walk of a capability list ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListEnd {
    /// At a null pointer: the list is complete.
    Complete,
    /// At an entry that was already visited. All reachable entries were visited.
    Looped,
    /// At bytes that were not read.
    OutOfReach,
    /// At a pointer or ID that no list may contain, or because the function does not respond.
    Broken,
}

/// The entries of a capability list, and why the walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Entries in list order.
    pub entries: Vec<Entry>,
    /// Why there are no more.
    pub end: ListEnd,
}

impl List {
    /// The offset of the first entry with this ID.
    pub fn find(&self, id: u16) -> Presence<u16> {
        match self.entries.iter().find(|entry| entry.id == id) {
            Some(entry) => Presence::Present(entry.offset),
            None => self.missing(),
        }
    }

    /// What an ID that is not among the entries means: absent only if the list was walked to its end.
    fn missing<T>(&self) -> Presence<T> {
        match self.end {
            ListEnd::Complete | ListEnd::Looped => Presence::Absent,
            ListEnd::OutOfReach | ListEnd::Broken => Presence::Unknown,
        }
    }
}

impl<'a> ConfigSpace<'a> {
    /// Configuration space whose first bytes are `bytes`; normally 64, 256 or 4096 of them.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Which parts of configuration space the bytes cover.
    pub fn reach(self) -> Reach {
        match self.bytes.len() {
            length if length <= HEADER_BYTES => Reach::Header,
            length if length <= CONVENTIONAL_BYTES => Reach::Conventional,
            _ => Reach::Extended,
        }
    }

    /// The byte at `offset`, if it was read.
    pub fn u8(self, offset: usize) -> Option<u8> {
        self.bytes.get(offset).copied()
    }

    /// The little-endian word at `offset`, if it was read.
    pub fn u16(self, offset: usize) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    /// The little-endian double word at `offset`, if it was read.
    pub fn u32(self, offset: usize) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    /// `N` bytes at `offset`, if they were read.
    fn array<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.bytes.get(offset..)?.first_chunk().copied()
    }

    /// Whether the function responds. Reads of one that was removed or is in D3cold return all ones.
    ///
    /// Vendor ID alone does not tell, because a virtual function's Vendor ID reads ffff (SR-IOV, section
    /// "VF Configuration Space").
    pub fn answers(self) -> bool {
        self.bytes.iter().take(16).any(|&byte| byte != 0xff)
    }

    /// The registers of the capability structure at `offset`. A structure that begins in conventional space also
    /// ends there: the bytes beyond belong to extended capabilities.
    pub fn structure(self, offset: u16) -> Structure<'a> {
        let end = if offset < EXTENDED_START { usize::from(EXTENDED_START) } else { self.bytes.len() };
        let bytes = self.bytes.get(..end).unwrap_or(self.bytes);
        Structure { config: Self { bytes }, offset: usize::from(offset) }
    }

    /// The conventional capability list.
    pub fn capabilities(self) -> List {
        let mut entries = Vec::new();
        let end = self.walk_conventional(&mut entries);
        List { entries, end }
    }

    /// Appends the conventional capabilities to `entries`.
    fn walk_conventional(self, entries: &mut Vec<Entry>) -> ListEnd {
        let Some(mut next) = self.first_capability() else {
            return if self.answers() { ListEnd::OutOfReach } else { ListEnd::Broken };
        };
        let mut seen = [false; 64];
        while next != 0 {
            let offset = usize::from(next);
            if offset < HEADER_BYTES {
                return ListEnd::Broken;
            }
            if std::mem::replace(&mut seen[offset / 4], true) {
                return ListEnd::Looped;
            }
            let (Some(id), Some(pointer)) = (self.u8(offset), self.u8(offset + 1)) else {
                return ListEnd::OutOfReach;
            };
            if id == 0xff {
                return ListEnd::Broken;
            }
            entries.push(Entry { id: id.into(), version: 0, offset: next.into() });
            next = pointer & !3;
        }
        ListEnd::Complete
    }

    /// The Capabilities Pointer, or 0 if the Status register says that there is no list.
    fn first_capability(self) -> Option<u8> {
        if !self.answers() {
            return None;
        }
        if self.u16(STATUS)? & STATUS_CAP_LIST == 0 {
            return Some(0);
        }
        let pointer = match self.u8(HEADER_TYPE)? & 0x7f {
            2 => CAPABILITY_POINTER_CARDBUS,
            _ => CAPABILITY_POINTER,
        };
        Some(self.u8(pointer)? & !3)
    }

    /// The extended capability list. Only PCI Express functions, and those in PCI-X mode 2, have one.
    pub fn extended_capabilities(self) -> List {
        let mut entries = Vec::new();
        let end = match self.may_be_extended() {
            true => self.walk_extended(&mut entries),
            false => self.capabilities().end,
        };
        List { entries, end }
    }

    /// Whether the function may have extended configuration space.
    pub(super) fn may_be_extended(self) -> bool {
        self.capabilities().entries.iter().any(|entry| self.implies_extended_space(*entry))
    }

    /// Whether functions with this capability have extended configuration space.
    fn implies_extended_space(self, entry: Entry) -> bool {
        match entry.id {
            conventional::EXPRESS => true,
            conventional::PCI_X => {
                self.structure(entry.offset).dword(4).is_some_and(|status| status & PCI_X_MODE_2 != 0)
            }
            _ => false,
        }
    }

    /// Appends the extended capabilities to `entries`.
    fn walk_extended(self, entries: &mut Vec<Entry>) -> ListEnd {
        let mut seen = [false; 1024];
        let mut offset = EXTENDED_START;
        loop {
            if std::mem::replace(&mut seen[usize::from(offset / 4) % 1024], true) {
                return ListEnd::Looped;
            }
            let Some(header) = self.u32(usize::from(offset)) else { return ListEnd::OutOfReach };
            match header {
                // An empty list is a header of zeros at 100h (section "Extended Capabilities").
                0 => return ListEnd::Complete,
                // A bridge above the function does not forward extended configuration requests.
                u32::MAX => return ListEnd::Broken,
                _ => {}
            }
            let [id_low, id_high, _, _] = header.to_le_bytes();
            let id = u16::from_le_bytes([id_low, id_high]);
            entries.push(Entry { id, version: ((header >> 16) & 0xf) as u8, offset });
            match ((header >> 20) & 0xffc) as u16 {
                0 => return ListEnd::Complete,
                next if next < EXTENDED_START => return ListEnd::Broken,
                next => offset = next,
            }
        }
    }
}

/// The registers of one capability structure, by offset from its start.
#[derive(Debug, Clone, Copy)]
pub struct Structure<'a> {
    config: ConfigSpace<'a>,
    offset: usize,
}

impl Structure<'_> {
    /// The 16-bit register at `offset`, widened to 32 bits, if it was read.
    pub fn word(self, offset: usize) -> Option<u32> {
        self.config.u16(self.offset + offset).map(u32::from)
    }

    /// The 32-bit register at `offset`, if it was read.
    pub fn dword(self, offset: usize) -> Option<u32> {
        self.config.u32(self.offset + offset)
    }
}

/// Whether the bit `mask` is set; `None` if the register was not read.
pub(super) fn flag(register: Option<u32>, mask: u32) -> Option<bool> {
    register.map(|value| value & mask != 0)
}

/// The field `mask` of a register, shifted to bit 0.
pub(super) fn field(register: Option<u32>, mask: u32) -> Option<u32> {
    register.map(|value| (value & mask) >> mask.trailing_zeros())
}

/// As [`field`], for fields of at most 16 bits.
pub(super) fn field16(register: Option<u32>, mask: u32) -> Option<u16> {
    field(register, mask).and_then(|value| u16::try_from(value).ok())
}

/// As [`field`], for fields of at most 8 bits.
pub(super) fn field8(register: Option<u32>, mask: u32) -> Option<u8> {
    field(register, mask).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use proptest::prelude::*;

    fn check(bytes: &[u8], conventional: (&[u16], ListEnd), extended: (&[u16], ListEnd)) {
        let config = ConfigSpace::new(bytes);
        for (list, (ids, end)) in
            [(config.capabilities(), conventional), (config.extended_capabilities(), extended)]
        {
            let found: Vec<u16> = list.entries.iter().map(|entry| entry.id).collect();
            assert_eq!((found.as_slice(), list.end), (ids, end));
        }
    }

    fn express() -> Image {
        Image::endpoint(0x8086, 0x1234, 0x02_0000)
            .capability(0x01, &[0; 6])
            .capability(0x10, &[0; 58])
            .extended(0x01, 2, &[0; 0x44])
            .extended(0x0f, 1, &[0; 4])
    }

    #[test]
    fn walks_complete_lists() {
        let image = express().bytes();
        check(&image, (&[1, 0x10], ListEnd::Complete), (&[1, 0x0f], ListEnd::Complete));
        let plain = Image::endpoint(1, 2, 0).capability(0x05, &[0; 8]).bytes();
        check(&plain, (&[5], ListEnd::Complete), (&[], ListEnd::Complete));
        check(&plain[..256], (&[5], ListEnd::Complete), (&[], ListEnd::Complete));
        let none = Image::endpoint(1, 2, 0).bytes();
        check(&none[..64], (&[], ListEnd::Complete), (&[], ListEnd::Complete));
    }

    #[test]
    fn a_short_read_ends_the_walk_out_of_reach() {
        let image = express().bytes();
        check(&image[..256], (&[1, 0x10], ListEnd::Complete), (&[], ListEnd::OutOfReach));
        check(&image[..0x102], (&[1, 0x10], ListEnd::Complete), (&[], ListEnd::OutOfReach));
        check(&image[..64], (&[], ListEnd::OutOfReach), (&[], ListEnd::OutOfReach));
        check(&image[..5], (&[], ListEnd::OutOfReach), (&[], ListEnd::OutOfReach));
        check(&image[..0x48], (&[1], ListEnd::OutOfReach), (&[], ListEnd::OutOfReach));
        check(&[], (&[], ListEnd::Broken), (&[], ListEnd::Broken));
    }

    #[test]
    fn malformed_lists_end_the_walk() {
        let first = 0x40;
        let looped = express().set(first + 1, &[0x40]).bytes();
        check(&looped, (&[1], ListEnd::Looped), (&[], ListEnd::Looped));
        let low = express().set(0x34, &[0x10]).bytes();
        check(&low, (&[], ListEnd::Broken), (&[], ListEnd::Broken));
        let ones = express().set(first + 1, &[0xff]).set(0xfc, &[0xff, 0xff]).bytes();
        check(&ones, (&[1], ListEnd::Broken), (&[], ListEnd::Broken));
        let gone = vec![0xff; 4096];
        check(&gone, (&[], ListEnd::Broken), (&[], ListEnd::Broken));
        let extended_loop = express().set(0x102, &[0x02, 0x10]).bytes();
        check(&extended_loop, (&[1, 0x10], ListEnd::Complete), (&[1], ListEnd::Looped));
        let extended_low = express().set(0x102, &[0x02, 0x08]).bytes();
        check(&extended_low, (&[1, 0x10], ListEnd::Complete), (&[1], ListEnd::Broken));
        let not_forwarded = express().set(0x100, &[0xff; 4]).bytes();
        check(&not_forwarded, (&[1, 0x10], ListEnd::Complete), (&[], ListEnd::Broken));
        let empty = express().set(0x100, &[0; 4]).bytes();
        check(&empty, (&[1, 0x10], ListEnd::Complete), (&[], ListEnd::Complete));
    }

    #[test]
    fn virtual_functions_answer() {
        let mut bytes = express().bytes();
        bytes[..4].fill(0xff);
        check(&bytes, (&[1, 0x10], ListEnd::Complete), (&[1, 0x0f], ListEnd::Complete));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..4200), header: bool) {
            let mut bytes = bytes;
            if header && bytes.len() > 0x101 {
                bytes[6] |= 0x10;
                bytes[0x34] = 0x40;
                bytes[0x40] = 0x10;
            }
            let config = ConfigSpace::new(&bytes);
            prop_assert!(config.capabilities().entries.len() <= 48);
            prop_assert!(config.extended_capabilities().entries.len() <= 960);
            let _ = crate::Capabilities::decode(config);
            let _ = crate::Header::decode(config);
        }
    }
}
