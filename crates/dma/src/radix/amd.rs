//! AMD's host page tables, version 1 ("AMD I/O Virtualization Technology (IOMMU) Specification", 48882, section 2.2.3).

use super::span::entry_bits;
use super::{Entry, Format, GRANULE_BITS};
use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

const PRESENT: u64 = 1 << 0;
/// Next Level field: level of the table that the entry points to, from 1. 0: a page of the entry's size. 7: a page
/// whose size is encoded in its address.
const NEXT_LEVEL: u32 = 9;
const OTHER_SIZE: u64 = 7;
/// FC: force coherent accesses.
const COHERENT: u64 = 1 << 60;
const READ: u64 = 1 << 61;
const WRITE: u64 = 1 << 62;
const ADDRESS: u64 = ((1 << 52) - 1) & !0xfff;

/// AMD's tables, version 1: up to 6 levels, of which the top one has what is left of 64 bits. Pages have every size from 4 KiB to
/// 256 TiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amd {}

impl Format for Amd {
    const LEVELS: RangeInclusive<u32> = 1..=6;
    // Up to 2^48 bytes: beyond that too few address bits are left to encode the size.
    const PAGE_SIZES: u64 = ((1 << 49) - 1) & !((1 << GRANULE_BITS) - 1);
    const MEMORY_LAST: MemoryAddress = MemoryAddress((1 << 52) - 1);

    fn leaf(memory: MemoryAddress, bits: u32, level: u32, access: Access) -> u64 {
        let read = if access.reads() { READ } else { 0 };
        let write = if access.writes() { WRITE } else { 0 };
        let size = match bits == entry_bits(level) {
            true => 0,
            // The size is encoded by ones from bit 12 up to the bit below size / 2.
            false => OTHER_SIZE << NEXT_LEVEL | ((1 << (bits - 1)) - 1) & ADDRESS,
        };
        memory.0 | size | PRESENT | COHERENT | read | write
    }

    fn table(page: MemoryAddress, level: u32) -> u64 {
        // Levels count from 1 in this format, so the level below has this level's number.
        page.0 | u64::from(level) << NEXT_LEVEL | PRESENT | READ | WRITE
    }

    fn read(entry: u64, level: u32) -> Entry {
        let address = entry & ADDRESS;
        match entry >> NEXT_LEVEL & 7 {
            _ if entry & PRESENT == 0 => Entry::Empty,
            0 => Entry::Leaf { memory: MemoryAddress(address), bits: entry_bits(level) },
            OTHER_SIZE => {
                let bits = (address | 0xfff).trailing_ones() + 1;
                Entry::Leaf { memory: MemoryAddress(address & !((1 << bits) - 1)), bits }
            }
            _ => Entry::Table(MemoryAddress(address)),
        }
    }
}
