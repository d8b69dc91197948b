//! One table of the tree.

use super::Format;
use super::span::entry_bits;
use crate::ram::TablePage;
use crate::{FRAME_BYTES, MemoryAddress, NoMemory, Ram};
use std::sync::atomic::{AtomicU64, Ordering};

/// A table's entries and its level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    page: &'a TablePage,
    pub(super) level: u32,
}

impl<'a> Node<'a> {
    /// The table in a page of memory.
    pub(super) fn at(ram: &'a Ram, page: MemoryAddress, level: u32) -> Result<Self, NoMemory> {
        Ok(Self { page: ram.table_page(page)?, level })
    }

    /// A table with all entries empty, in a page not yet installed. Fails if an entry cannot address it.
    pub(super) fn new_empty<F: Format>(
        ram: &'a Ram,
        page: MemoryAddress,
        level: u32,
    ) -> Result<Self, NoMemory> {
        if page > F::MEMORY_LAST {
            return Err(NoMemory { at: page, bytes: FRAME_BYTES });
        }
        let node = Self::at(ram, page, level)?;
        node.page.iter().for_each(|entry| entry.store(0, Ordering::Relaxed));
        Ok(node)
    }

    /// The entry for an address.
    pub(super) fn entry(self, at: u64) -> u64 {
        self.slot(at).load(Ordering::Acquire)
    }

    /// The slot of the entry for an address, for atomic access.
    pub(super) fn slot(self, at: u64) -> &'a AtomicU64 {
        &self.page[self.index(at)]
    }

    /// Up to `count` slots from the one for an address.
    pub(super) fn slots(self, at: u64, count: u64) -> &'a [AtomicU64] {
        let from = &self.page[self.index(at)..];
        &from[..from.len().min(count as usize)]
    }

    /// All entries.
    pub(super) fn entries(self) -> impl Iterator<Item = u64> {
        self.page.iter().map(|entry| entry.load(Ordering::Acquire))
    }

    /// The index of an address's entry.
    fn index(self, at: u64) -> usize {
        (at >> entry_bits(self.level)) as usize % self.page.len()
    }
}
