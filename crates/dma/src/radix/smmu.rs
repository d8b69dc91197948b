//! Arm SMMUv3, stage 1 in the long-descriptor format with a granule of 4 KiB ("Arm Architecture Reference Manual", DDI 0487,
//! chapter D8; "Arm System Memory Management Unit Architecture Specification", IHI 0070).

use super::span::entry_bits;
use super::{Entry, Format};
use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

const VALID: u64 = 1 << 0;
/// Bit 1: a table, or a page at the lowest level. Clear: a block.
const TABLE_OR_PAGE: u64 = 1 << 1;
/// AttrIndx 1: normal cached memory, in the MAIR that Linux's driver sets.
const CACHED: u64 = 1 << 2;
/// AP[1]: unprivileged accesses allowed, as adapters' are.
const UNPRIVILEGED: u64 = 1 << 6;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
/// AF, access flag: without it the first access faults.
const ACCESSED: u64 = 1 << 10;
/// nG: not global.
const NOT_GLOBAL: u64 = 1 << 11;
const ADDRESS: u64 = ((1 << 48) - 1) & !0xfff;

/// SMMUv3 stage 1: 3 levels for 39 bits, 4 for 48. A page that can be written can always be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smmu {}

impl Format for Smmu {
    const LEVELS: RangeInclusive<u32> = 3..=4;
    const PAGE_SIZES: u64 = 1 << 12 | 1 << 21 | 1 << 30;
    const MEMORY_LAST: MemoryAddress = MemoryAddress((1 << 48) - 1);

    fn leaf(memory: MemoryAddress, _bits: u32, level: u32, access: Access) -> u64 {
        let kind = if level == 0 { TABLE_OR_PAGE } else { 0 };
        let writes = if access.writes() { 0 } else { READ_ONLY };
        let attributes = CACHED | UNPRIVILEGED | INNER_SHAREABLE | ACCESSED | NOT_GLOBAL;
        memory.0 | VALID | kind | writes | attributes
    }

    fn table(page: MemoryAddress, _level: u32) -> u64 {
        page.0 | VALID | TABLE_OR_PAGE
    }

    fn read(entry: u64, level: u32) -> Entry {
        let address = MemoryAddress(entry & ADDRESS);
        if entry & VALID == 0 {
            Entry::Empty
        } else if level == 0 || entry & TABLE_OR_PAGE == 0 {
            Entry::Leaf { memory: address, bits: entry_bits(level) }
        } else {
            Entry::Table(address)
        }
    }
}
