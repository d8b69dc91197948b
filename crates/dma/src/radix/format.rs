//! What a format of page tables is to the writer.

use crate::{Access, MemoryAddress};
use std::ops::RangeInclusive;

/// What an entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Nothing is mapped.
    Empty,
    /// There is a table of the level below in this page.
    Table(MemoryAddress),
    /// A page of 2^`bits` bytes begins at this address.
    Leaf {
        /// Its address.
        memory: MemoryAddress,
        /// Its size.
        bits: u32,
    },
}

/// A format: how entries are written, and read back by the writer. Level 0 has the entries of 4 KiB. An empty entry is 0 in all of
/// them.
pub trait Format: Send + Sync + 'static {
    /// Levels that a table can have.
    const LEVELS: RangeInclusive<u32>;
    /// Sizes that pages can have, bit *n* for 2^*n* bytes. A page between the sizes of two levels' entries is written into as many
    /// entries as it spans.
    const PAGE_SIZES: u64;
    /// The highest memory address that an entry can name.
    const MEMORY_LAST: MemoryAddress;

    /// The entry for a page of 2^`bits` bytes.
    fn leaf(memory: MemoryAddress, bits: u32, level: u32, access: Access) -> u64;

    /// The entry, at this level, for the table below.
    fn table(page: MemoryAddress, level: u32) -> u64;

    /// What such an entry says.
    fn read(entry: u64, level: u32) -> Entry;
}
