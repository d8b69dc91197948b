//! Intel VT-d second-stage tables ("Intel Virtualization Technology for Directed I/O", Architecture Specification,
//! chapter 9).

use super::span::entry_bits;
use super::{Entry, Format};
use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

const READ: u64 = 1 << 0;
const WRITE: u64 = 1 << 1;
/// PS: above the lowest level, this entry is a page.
const PAGE: u64 = 1 << 7;
const ADDRESS: u64 = ((1 << 52) - 1) & !0xfff;

/// VT-d second stage: 3 levels for 39 bits, 4 for 48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vtd {}

impl Format for Vtd {
    const LEVELS: RangeInclusive<u32> = 3..=4;
    const PAGE_SIZES: u64 = 1 << 12 | 1 << 21 | 1 << 30;
    const MEMORY_LAST: MemoryAddress = MemoryAddress((1 << 52) - 1);

    fn leaf(memory: MemoryAddress, _bits: u32, level: u32, access: Access) -> u64 {
        let read = if access.reads() { READ } else { 0 };
        let write = if access.writes() { WRITE } else { 0 };
        memory.0 | read | write | if level > 0 { PAGE } else { 0 }
    }

    fn table(page: MemoryAddress, _level: u32) -> u64 {
        page.0 | READ | WRITE
    }

    fn read(entry: u64, level: u32) -> Entry {
        let address = MemoryAddress(entry & ADDRESS);
        if entry & (READ | WRITE) == 0 {
            Entry::Empty
        } else if level == 0 || entry & PAGE != 0 {
            Entry::Leaf { memory: address, bits: entry_bits(level) }
        } else {
            Entry::Table(address)
        }
    }
}
