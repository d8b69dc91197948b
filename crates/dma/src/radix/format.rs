//! The interface of a page table format, for the writer.

use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

/// A decoded entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing is mapped.
    Empty,
    /// Points to a table of the next lower level.
    Table(MemoryAddress),
    /// Maps a page of 2^`bits` bytes.
    Leaf {
        /// Memory address.
        memory: MemoryAddress,
        /// Log2 of the page size.
        bits: u32,
    },
}

/// Encodes and decodes entries. Level 0 has entries for 4 KiB. An empty entry is 0 in every format.
pub trait Format: Send + Sync + 'static {
    /// Numbers of levels that a table can have.
    const LEVELS: RangeInclusive<u32>;
    /// Page sizes, bit *n* for 2^*n* bytes. A size between those of two levels takes several consecutive entries.
    const PAGE_SIZES: u64;
    /// The highest memory address that an entry can name.
    const MEMORY_LAST: MemoryAddress;

    /// Encodes a leaf for a page of 2^`bits` bytes.
    fn leaf(memory: MemoryAddress, bits: u32, level: u32, access: Access) -> u64;

    /// Encodes a pointer to a table of the next lower level.
    fn table(page: MemoryAddress, level: u32) -> u64;

    /// Decodes an entry.
    fn read(entry: u64, level: u32) -> Entry;
}
