//! A window's TCE table.

use super::Entry;
use crate::{BusAddress, ByteOrder, MemoryAddress, NoMemory, Ram};
use ddw::TCE_BYTES;

/// Position and coverage of a TCE table, as programmed into a host bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Address of the first entry.
    pub at: MemoryAddress,
    /// Bus address of the first entry's page.
    pub first: BusAddress,
    /// Number of entries.
    pub entries: u64,
    /// Log2 of the page size.
    pub page_shift: u32,
}

impl Table {
    /// Page size.
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// Last bus address.
    pub fn last(&self) -> BusAddress {
        BusAddress(self.first.0 + ((self.entries << self.page_shift) - 1))
    }

    /// Index of the entry for a bus address, if `count` entries exist from there.
    pub(super) fn index(&self, at: BusAddress, count: u64) -> Option<u64> {
        let offset = at.0.checked_sub(self.first.0).filter(|offset| offset % self.page_bytes() == 0)?;
        let index = offset >> self.page_shift;
        let is_within = index < self.entries && count <= self.entries - index;
        is_within.then_some(index)
    }

    /// Reads an entry.
    pub(super) fn read(&self, ram: &Ram, index: u64) -> Result<Entry, NoMemory> {
        ram.read_u64(self.entry_address(index), ByteOrder::Big).map(Entry)
    }

    /// Writes an entry.
    pub(super) fn write(&self, ram: &Ram, index: u64, entry: Entry) -> Result<(), NoMemory> {
        ram.write_u64(self.entry_address(index), ByteOrder::Big, entry.0)
    }

    /// Whether all entries are invalid.
    pub(super) fn is_clear(&self, ram: &Ram) -> bool {
        (0..self.entries).all(|index| self.read(ram, index).is_ok_and(|entry| entry.access().is_none()))
    }

    /// The memory address of an entry.
    fn entry_address(&self, index: u64) -> MemoryAddress {
        MemoryAddress(self.at.0 + index * TCE_BYTES)
    }
}
