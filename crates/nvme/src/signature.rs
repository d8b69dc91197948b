//! Finds what is on a disk by signatures: file systems, RAID members, volumes, encryption, swap areas, partition
//! tables.
//!
//! ```text
//!   Contents::read   reads a few parts of a disk, through a driver or a file
//!     |
//!     +-- table        the data: magic bytes of every known type, and where they are
//!     +-- partitions   GPT and MBR; each partition is probed like a disk
//!     +-- pages        a cache of the bytes read; unreadable parts are noted
//! ```
//!
//! Before a disk is overwritten, the user must know what would be lost. The reference is util-linux's libblkid, whose
//! type names are used (`blkid -o export`, `TYPE`). It is not linked, because a static program would need a C
//! compiler, and because it reports only one type per disk. The Rust crates `libblockid` 0.1 and `blkid-rs` 0.3 know
//! no RAID, LVM or ZFS.
//!
//! The rules are looser than libblkid's on purpose: a superblock with a wrong checksum can be repaired, so it is
//! reported too. The test `signature` compares with `wipefs`.

mod pages;
mod partitions;
mod table;

pub use partitions::Partition;

use pages::{Pages, View};
use std::io;
use table::{Field, ROWS, Row};

/// What a signature belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A file system, or its journal.
    FileSystem,
    /// A member of a RAID array or of a pool.
    Raid,
    /// A physical volume, a cache, or another part of a volume manager.
    Volume,
    /// Encrypted data.
    Encryption,
    /// Swap space, or the image of a suspended system.
    Swap,
    /// A partition table.
    PartitionTable,
    /// The image of a virtual machine's disk, in a format that is not raw.
    DiskImage,
}

impl Kind {
    /// The kind in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::FileSystem => "file system",
            Self::Raid => "RAID or pool member",
            Self::Volume => "volume",
            Self::Encryption => "encrypted volume",
            Self::Swap => "swap area",
            Self::PartitionTable => "partition table",
            Self::DiskImage => "disk image",
        }
    }
}

/// A signature found on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Type, by libblkid's name where it has one.
    pub name: &'static str,
    /// What it belongs to.
    pub kind: Kind,
    /// Offset on the disk in bytes. If a type occurs several times, the first.
    pub at: u64,
    /// The partition that contains it; `None` for the whole disk.
    pub partition: Option<Partition>,
    /// Label, or name of the array or volume.
    pub label: Option<String>,
    /// UUID or serial number.
    pub uuid: Option<String>,
}

/// The result of probing a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Signatures of the whole disk, then of each partition; each type once.
    pub signatures: Vec<Signature>,
    /// Partitions of the partition table.
    pub partitions: Vec<Partition>,
    /// Offsets of parts that could not be read.
    pub unreadable: Vec<u64>,
    /// Offset of the first byte read that is not zero.
    pub not_zero: Option<u64>,
}

/// Bytes read at each end of a disk to see whether it is empty.
const EDGE_BYTES: u64 = 1 << 20;

impl Contents {
    /// Probes a disk of `bytes` bytes. `read` fills a buffer from an offset; both are multiples of `block_bytes`.
    /// `also` is a range whose first MiB is checked for data, like both ends of the disk.
    pub fn read(
        bytes: u64,
        block_bytes: u64,
        also: std::ops::Range<u64>,
        read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> Self {
        let mut pages = Pages::new(bytes, block_bytes, read);
        let also = also.start..also.end.min(also.start.saturating_add(EDGE_BYTES));
        for range in [0..EDGE_BYTES, bytes.saturating_sub(EDGE_BYTES)..bytes, also] {
            pages.load(range);
        }
        let mut whole = View::new(&mut pages, 0, bytes);
        let mut signatures = probe(&mut whole, None);
        let (table, partitions) = partitions::read(&mut whole, &signatures);
        signatures.extend(table);
        for partition in &partitions {
            let mut view = View::new(&mut pages, partition.first_byte, partition.bytes);
            signatures.extend(probe(&mut view, Some(partition)));
        }
        Self { signatures, partitions, unreadable: pages.unreadable(), not_zero: pages.not_zero() }
    }

    /// The types found, each once.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.signatures.iter().map(|signature| signature.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// The first signature of each type.
fn probe(view: &mut View<'_, '_>, partition: Option<&Partition>) -> Vec<Signature> {
    let mut found: Vec<Signature> = Vec::new();
    for row in ROWS {
        if found.iter().any(|one| one.name == row.name) {
            continue;
        }
        if let Some((structure, at)) = find_magic(view, row) {
            found.push(Signature {
                name: row.name,
                kind: row.kind,
                at: view.first_byte() + at,
                partition: partition.cloned(),
                label: row.label.and_then(|field| format_field(view, structure, field)),
                uuid: row.uuid.and_then(|field| format_field(view, structure, field)),
            });
        }
    }
    found
}

/// Offsets of the structure and of its magic bytes, if the row matches.
fn find_magic(view: &mut View<'_, '_>, row: &Row) -> Option<(u64, u64)> {
    let bytes = view.bytes();
    for structure in row.at.iter().filter_map(|position| position.offset(bytes)) {
        for magic_at in row.magic_at {
            let at = structure.checked_add(*magic_at)?;
            if view.is_at(at, row.magic) && row.check.is_none_or(|check| check(view, structure)) {
                return Some((structure, at));
            }
        }
    }
    None
}

/// A field as text; `None` if it is empty.
fn format_field(view: &mut View<'_, '_>, structure: u64, field: Field) -> Option<String> {
    let text = match field {
        Field::Text { at, bytes } => {
            let bytes = view.read(structure.checked_add(at)?, bytes)?;
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        }
        Field::Utf16 { at, bytes } => {
            let bytes = view.read(structure.checked_add(at)?, bytes)?;
            let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
            String::from_utf16_lossy(&units)
        }
        Field::Uuid { at } => {
            let bytes = view.read(structure.checked_add(at)?, 16)?;
            if bytes.iter().all(|byte| *byte == 0) {
                return None;
            }
            uuid(&bytes)
        }
        Field::Serial { at, bytes } => {
            let bytes = view.read(structure.checked_add(at)?, bytes)?;
            bytes.iter().rev().map(|byte| format!("{byte:02X}")).collect()
        }
    };
    let text = text.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Sixteen bytes in the text form of a UUID, in disk order.
fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{byte:02x}");
    }
    text
}
