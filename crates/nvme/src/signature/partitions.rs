//! Partition tables: GPT, and MBR with its logical partitions.

use super::pages::View;
use super::{Kind, Signature};

/// A partition of a partition table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Partition number, as the kernel counts.
    pub number: u32,
    /// Partition name, for GPT.
    pub name: Option<String>,
    /// Offset on the disk in bytes.
    pub first_byte: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Sector sizes to try: a disk image does not state its own.
const SECTOR_BYTES: [u64; 2] = [512, 4096];
/// Most entries read of a table. Usual tables have 128; a damaged header may claim any number.
const ENTRIES_MAX: u32 = 1024;
/// Most logical partitions followed: a damaged linked list may be a loop.
const LOGICAL_MAX: u32 = 64;
/// MBR types of extended partitions.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// MBR type of the protective partition on a GPT disk.
const PROTECTIVE: u8 = 0xee;
/// File systems whose boot sector looks like an MBR.
const BOOT_SECTORS: [&str; 5] = ["vfat", "ntfs", "exfat", "BitLocker", "ReFS"];

/// The MBR's signature and the partitions of GPT or MBR. `found` are the signatures already found on the disk.
pub(super) fn read(view: &mut View<'_, '_>, found: &[Signature]) -> (Option<Signature>, Vec<Partition>) {
    if found.iter().any(|one| one.name == "gpt") {
        return (None, gpt(view));
    }
    if found.iter().any(|one| BOOT_SECTORS.contains(&one.name)) {
        return (None, Vec::new());
    }
    let Some(entries) = mbr_entries(view, 0) else { return (None, Vec::new()) };
    let name = if entries.iter().any(|entry| entry.kind == PROTECTIVE) { "PMBR" } else { "dos" };
    let signature = Signature {
        name,
        kind: Kind::PartitionTable,
        at: view.first_byte() + 510,
        partition: None,
        label: None,
        uuid: None,
    };
    let partitions = if name == "dos" { mbr(view, &entries) } else { Vec::new() };
    (Some(signature), partitions)
}

/// Partitions by the first readable GPT header: the primary, else the backup at the end.
fn gpt(view: &mut View<'_, '_>) -> Vec<Partition> {
    for sector in SECTOR_BYTES {
        let last = (view.bytes() / sector).saturating_sub(1).saturating_mul(sector);
        for header in [sector, last] {
            if view.is_at(header, b"EFI PART") {
                let partitions = gpt_entries(view, header, sector).unwrap_or_default();
                if !partitions.is_empty() {
                    return partitions;
                }
            }
        }
    }
    Vec::new()
}

/// Reads the entries of a GPT header (UEFI Specification, 5.3.2 and 5.3.3).
fn gpt_entries(view: &mut View<'_, '_>, header: u64, sector: u64) -> Option<Vec<Partition>> {
    let first_entry = view.u64(header + 72)?.checked_mul(sector)?;
    let (entries, entry_bytes) = (view.u32(header + 80)?, u64::from(view.u32(header + 84)?));
    if entry_bytes < 128 {
        return None;
    }
    let mut partitions = Vec::new();
    for position in 0..entries.min(ENTRIES_MAX) {
        let at = first_entry.checked_add(u64::from(position).checked_mul(entry_bytes)?)?;
        let Some(kind) = view.read(at, 16) else { break };
        if kind.iter().all(|byte| *byte == 0) {
            continue;
        }
        let (first, last) = (view.u64(at + 32)?, view.u64(at + 40)?);
        let blocks = last.saturating_sub(first).saturating_add(1);
        let name = super::format_field(view, at, super::Field::Utf16 { at: 56, bytes: 72 });
        partitions.push(Partition {
            number: position + 1,
            name,
            first_byte: first.saturating_mul(sector),
            bytes: blocks.saturating_mul(sector),
        });
    }
    Some(partitions)
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: u8,
    first: u64,
    sectors: u64,
}

/// The four entries of a boot record. Boot sectors of file systems also end with 55 aa, so each entry's boot
/// indicator must be 0x00 or 0x80.
fn mbr_entries(view: &mut View<'_, '_>, at: u64) -> Option<[Entry; 4]> {
    let sector = view.read(at, 512)?;
    let entries = sector[446..510].chunks_exact(16);
    let is_record = sector[510..] == [0x55, 0xaa] && entries.clone().all(|entry| entry[0] & 0x7f == 0);
    let word = |entry: &[u8], at: usize| {
        u64::from(u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]))
    };
    let mut read =
        entries.map(|entry| Entry { kind: entry[4], first: word(entry, 8), sectors: word(entry, 12) });
    let entries = [read.next()?, read.next()?, read.next()?, read.next()?];
    is_record.then_some(entries)
}

/// The partitions of an MBR: the primary ones, and those in the chain of an extended one.
fn mbr(view: &mut View<'_, '_>, entries: &[Entry; 4]) -> Vec<Partition> {
    let partition = |number: u32, first: u64, sectors: u64| Partition {
        number,
        name: None,
        first_byte: first.saturating_mul(512),
        bytes: sectors.saturating_mul(512),
    };
    let mut partitions = Vec::new();
    let mut extended = None;
    for (number, entry) in (1..).zip(entries).filter(|(_, entry)| entry.kind != 0 && entry.sectors > 0) {
        match EXTENDED.contains(&entry.kind) {
            true => extended = Some(entry.first),
            false => partitions.push(partition(number, entry.first, entry.sectors)),
        }
    }
    let Some(base) = extended else { return partitions };
    // Each logical partition has its own record: its entry, and the next record's offset within the extended
    // partition.
    let mut record = base;
    for number in 5..5 + LOGICAL_MAX {
        let Some([logical, next, ..]) = mbr_entries(view, record.saturating_mul(512)) else { break };
        if logical.kind != 0 && logical.sectors > 0 {
            partitions.push(partition(number, record.saturating_add(logical.first), logical.sectors));
        }
        if !EXTENDED.contains(&next.kind) || next.first == 0 {
            break;
        }
        record = base.saturating_add(next.first);
    }
    partitions
}
