//! AMD's host page tables, version 1 ("AMD I/O Virtualization Technology (IOMMU) Specification", 48882, section 2.2.3).

use super::span::entry_bits;
use super::{Entry, Format, GRANULE_BITS};
use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

const PRESENT: u64 = 1 << 0;
/// The level of the table that an entry leads to, where the lowest is 1. 0: a page of the entry's size. 7: of the size that
/// its address tells.
const NEXT_LEVEL: u32 = 9;
const OTHER_SIZE: u64 = 7;
/// The adapter's accesses are coherent, whatever they say.
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
    // As far as memory addresses have bits to tell the size.
    const PAGE_SIZES: u64 = ((1 << 49) - 1) & !((1 << GRANULE_BITS) - 1);
    const MEMORY_LAST: MemoryAddress = MemoryAddress((1 << 52) - 1);

    fn leaf(memory: MemoryAddress, bits: u32, level: u32, access: Access) -> u64 {
        let read = if access.reads() { READ } else { 0 };
        let write = if access.writes() { WRITE } else { 0 };
        let size = match bits == entry_bits(level) {
            true => 0,
            // As many ones from bit 12 up as make the lowest zero the bit below the size's.
            false => OTHER_SIZE << NEXT_LEVEL | ((1 << (bits - 1)) - 1) & ADDRESS,
        };
        memory.0 | size | PRESENT | COHERENT | read | write
    }

    fn table(page: MemoryAddress, level: u32) -> u64 {
        // Levels are counted from 1 there: the one below has this one's number here.
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
