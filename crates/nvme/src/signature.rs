//! What is on a disk: file systems, RAID members, volumes, encryption, swap areas and partition tables, by their signatures.
//!
//! ```text
//!   Contents::read    asks a disk for few of its bytes, through a driver or a file
//!     |
//!     +-- table       magic bytes of every known type, and where they are: the data
//!     +-- partitions  the tables GPT and MBR; each partition is probed like a disk
//!     +-- pages       the bytes that were read, kept; what can't be read is noted
//! ```
//!
//! Before a disk is overwritten somebody has to know what is lost. util-linux's libblkid is the reference, and names are its names (`blkid -o export`:
//! `TYPE`). It is a C library, which a static program without a C compiler can't link, and it reports one type where this has to report all of them.
//! The Rust crates that probe (`libblockid` 0.1, `blkid-rs` 0.3) know no RAID, LVM or ZFS. The rules here are looser than libblkid's on purpose: a
//! damaged superblock without a valid checksum can be repaired, so it is found too. Test `signature` holds it against `wipefs`.

mod pages;
mod partitions;
mod table;

pub use partitions::Partition;

use pages::{Pages, View};
use std::io;
use table::{Field, ROWS, Row};

/// What kind of thing a signature marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// In words.
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

/// A signature that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Its type, by libblkid's name where it has one.
    pub name: &'static str,
    /// The kind of thing.
    pub kind: Kind,
    /// The byte of the disk where the first one of this type is.
    pub at: u64,
    /// The partition that it is in; none if it is the whole disk's.
    pub partition: Option<Partition>,
    /// A label or a name of the array or volume.
    pub label: Option<String>,
    /// Its UUID, or what takes its place.
    pub uuid: Option<String>,
}

/// What is on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Signatures of the whole disk, then those of each partition; of each type the first one.
    pub signatures: Vec<Signature>,
    /// Partitions that a table lists.
    pub partitions: Vec<Partition>,
    /// Places that could not be read, by their first byte.
    pub unreadable: Vec<u64>,
    /// The first byte that is not zero in what was read; none if all that was read is zero.
    pub not_zero: Option<u64>,
}

/// Bytes at either end of a disk that are read to see whether it is empty.
const EDGE_BYTES: u64 = 1 << 20;

impl Contents {
    /// Reads a disk of so many bytes. `read` fills a buffer from a byte on; both are multiples of `block_bytes`. `also` are bytes that are looked at
    /// besides both ends to see whether anything is there, its first MiB at most.
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

    /// The types that were found, each once.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.signatures.iter().map(|signature| signature.name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Of each type the first signature.
fn probe(view: &mut View<'_, '_>, partition: Option<&Partition>) -> Vec<Signature> {
    let mut found: Vec<Signature> = Vec::new();
    for row in ROWS {
        if found.iter().any(|one| one.name == row.name) {
            continue;
        }
        if let Some((structure, at)) = place(view, row) {
            found.push(Signature {
                name: row.name,
                kind: row.kind,
                at: view.first_byte() + at,
                partition: partition.cloned(),
                label: row.label.and_then(|field| value(view, structure, field)),
                uuid: row.uuid.and_then(|field| value(view, structure, field)),
            });
        }
    }
    found
}

/// Where a row's structure begins, and its magic bytes.
fn place(view: &mut View<'_, '_>, row: &Row) -> Option<(u64, u64)> {
    let bytes = view.bytes();
    for structure in row.at.iter().filter_map(|place| place.of(bytes)) {
        for magic_at in row.magic_at {
            let at = structure.checked_add(*magic_at)?;
            if view.is_at(at, row.magic) && row.check.is_none_or(|check| check(view, structure)) {
                return Some((structure, at));
            }
        }
    }
    None
}

/// A field in words; nothing if it is empty.
fn value(view: &mut View<'_, '_>, structure: u64, field: Field) -> Option<String> {
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

/// Sixteen bytes as a UUID is written, in their order on the disk.
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
