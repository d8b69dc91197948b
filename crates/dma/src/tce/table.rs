//! A window's table, as the hypervisor keeps it.

use super::Entry;
use crate::{BusAddress, ByteOrder, MemoryAddress, NoMemory, Ram};
use ddw::TCE_BYTES;

/// Where a window's table lies and what it translates: what a host bridge is told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Where its entries begin in memory.
    pub at: MemoryAddress,
    /// The bus address that the first of them translates.
    pub first: BusAddress,
    /// How many there are.
    pub entries: u64,
    /// Each is for `1 << page_shift` bytes.
    pub page_shift: u32,
}

impl Table {
    /// Bytes that one entry translates.
    pub fn page_bytes(&self) -> u64 {
        1 << self.page_shift
    }

    /// The last bus address that it translates.
    pub fn last(&self) -> BusAddress {
        BusAddress(self.first.0 + ((self.entries << self.page_shift) - 1))
    }

    /// The number of the entry for a page of bus addresses, from which on there are to be `count`.
    pub(super) fn index(&self, at: BusAddress, count: u64) -> Option<u64> {
        let offset =
            at.0.checked_sub(self.first.0).filter(|offset| offset.is_multiple_of(self.page_bytes()))?;
        let index = offset >> self.page_shift;
        let is_within = index < self.entries && count <= self.entries - index;
        is_within.then_some(index)
    }

    pub(super) fn read(&self, ram: &Ram, index: u64) -> Result<Entry, NoMemory> {
        ram.read_u64(self.place(index), ByteOrder::Big).map(Entry)
    }

    pub(super) fn write(&self, ram: &Ram, index: u64, entry: Entry) -> Result<(), NoMemory> {
        ram.write_u64(self.place(index), ByteOrder::Big, entry.0)
    }

    /// Whether no entry allows anything.
    pub(super) fn is_clear(&self, ram: &Ram) -> bool {
        (0..self.entries).all(|index| self.read(ram, index).is_ok_and(|entry| entry.access().is_none()))
    }

    fn place(&self, index: u64) -> MemoryAddress {
        MemoryAddress(self.at.0 + index * TCE_BYTES)
    }
}
