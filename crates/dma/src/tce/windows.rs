//! The hypervisor's records of all endpoints, windows and tables.

use super::memory_range::MemoryRanges;
use super::{Endpoint, EndpointAddress, EndpointError, MemoryRange, Offer, Table};
use crate::{BusAddress, Memory, MemoryAddress, NoMemory, Ram};
use ddw::{DEFAULT_PAGE_SHIFT, TCE_BYTES};
use std::collections::BTreeMap;

/// Alignment of tables.
const TABLE_ALIGNMENT: u64 = 4096;

#[derive(Debug, Default)]
pub(super) struct Windows {
    slots: BTreeMap<EndpointAddress, EndpointRecord>,
    tables: BTreeMap<u32, TableRecord>,
}

#[derive(Debug)]
struct EndpointRecord {
    endpoint: Endpoint,
    /// Free ranges of the memory for tables.
    free: MemoryRanges,
}

/// A table, its endpoint, and whether the partition may still use it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableRecord {
    pub(super) table: Table,
    pub(super) is_rescinded: bool,
    of: EndpointAddress,
}

impl Windows {
    /// Adds an endpoint, with its default window.
    pub(super) fn add(
        &mut self,
        ram: &Ram,
        endpoint: Endpoint,
        partition: &MemoryRanges,
    ) -> Result<(), EndpointError> {
        let EndpointAddress { config, buid } = endpoint.address;
        let Endpoint { address, liobn, default_bytes: bytes, tables, .. } = endpoint;
        if self.slots.contains_key(&address) || self.tables.contains_key(&liobn) {
            return Err(EndpointError::Taken { config, buid, liobn });
        }
        if bytes == 0 || bytes > 1 << 32 || bytes % (1 << DEFAULT_PAGE_SHIFT) != 0 {
            return Err(EndpointError::DefaultWindow { bytes });
        }
        let others: MemoryRanges = self.slots.values().map(|slot| slot.endpoint.tables).collect();
        if partition.overlaps(tables) || others.overlaps(tables) {
            return Err(EndpointError::Overlaps(tables));
        }
        let there = MemoryRange { start: ram.base(), bytes: ram.bytes() };
        let is_there = [there].into_iter().collect::<MemoryRanges>().contains(tables);
        if !is_there || tables.start.0 % TABLE_ALIGNMENT != 0 {
            return Err(NoMemory { at: tables.start, bytes: tables.bytes }.into());
        }
        self.slots.insert(address, EndpointRecord { endpoint, free: [tables].into_iter().collect() });
        if self.restore_default(ram, address).is_none() {
            self.slots.remove(&address);
            return Err(EndpointError::NoRoom { bytes: tables.bytes });
        }
        Ok(())
    }

    /// The endpoint at an address.
    pub(super) fn endpoint(&self, address: EndpointAddress) -> Option<&Endpoint> {
        self.slots.get(&address).map(|slot| &slot.endpoint)
    }

    /// The table of a window.
    pub(super) fn table_record(&self, liobn: u32) -> Option<&TableRecord> {
        self.tables.get(&liobn)
    }

    /// Withdraws a window: further entries are refused.
    pub(super) fn rescind(&mut self, liobn: u32) {
        self.tables.entry(liobn).and_modify(|kept| kept.is_rescinded = true);
    }

    /// The 64-bit windows that firmware offers an endpoint.
    pub(super) fn offer(&self, address: EndpointAddress) -> Option<Offer> {
        self.endpoint(address)?.offer
    }

    /// How many more windows it can have.
    pub(super) fn available(&self, address: EndpointAddress) -> u32 {
        let used = u32::try_from(self.of(address).count()).unwrap_or(u32::MAX);
        self.offer(address).map_or(0, |offer| offer.windows_max.saturating_sub(used))
    }

    /// Entries of the largest table that still fits. Tables take whole multiples of their alignment.
    pub(super) fn largest_block(&self, address: EndpointAddress) -> u64 {
        let free_bytes = self.slots.get(&address).map_or(0, |slot| slot.free.largest());
        free_bytes / TABLE_ALIGNMENT * (TABLE_ALIGNMENT / TCE_BYTES)
    }

    /// Creates an empty window; returns its LIOBN and lowest address, or `None` if a rule forbids it.
    pub(super) fn create(
        &mut self,
        ram: &Ram,
        address: EndpointAddress,
        page_shift: u32,
        window_shift: u32,
    ) -> Option<(u32, BusAddress)> {
        let offer = self.offer(address)?;
        // LoPAR forbids windows smaller than 4 KiB. It says nothing about windows smaller than their page, but a
        // table needs at least one entry.
        let is_offered = offer.page_sizes.shifts().contains(&page_shift);
        let is_sensible = window_shift >= page_shift && window_shift < u64::BITS;
        if !is_offered || !is_sensible || self.available(address) == 0 {
            return None;
        }
        let first = self.place(address, offer.first, 1 << window_shift)?;
        let own = self.endpoint(address)?.liobn;
        let liobn = (own.checked_add(1)?..=u32::MAX).find(|liobn| !self.tables.contains_key(liobn))?;
        let entries = 1 << (window_shift - page_shift);
        self.create_table(ram, address, liobn, Table { at: MemoryAddress(0), first, entries, page_shift })?;
        Some((liobn, first))
    }

    /// Removes a window without valid entries. After the last created one the default window is restored.
    pub(super) fn remove(&mut self, ram: &Ram, liobn: u32) -> Option<()> {
        let kept = *self.tables.get(&liobn)?;
        self.offer(kept.of)?;
        if !kept.table.is_clear(ram) {
            return None;
        }
        self.drop_table(liobn);
        let was_default = self.endpoint(kept.of)?.liobn == liobn;
        if !was_default && self.created(kept.of).is_empty() {
            self.restore_default(ram, kept.of);
        }
        Some(())
    }

    /// Restores the state at boot, unless another window than the default one has valid entries. The default window's
    /// entries stay.
    pub(super) fn reset(&mut self, ram: &Ram, address: EndpointAddress) -> Option<()> {
        self.offer(address).filter(|offer| offer.reset)?;
        let created = self.created(address);
        let is_clear = |liobn: &u32| self.table_record(*liobn).is_none_or(|kept| kept.table.is_clear(ram));
        if !created.iter().all(is_clear) {
            return None;
        }
        created.into_iter().for_each(|liobn| self.drop_table(liobn));
        self.restore_default(ram, address)
    }

    /// The windows of an endpoint, each with its LIOBN and table.
    fn of(&self, address: EndpointAddress) -> impl Iterator<Item = (u32, Table)> {
        let is_own = move |kept: &TableRecord| kept.of == address;
        self.tables.iter().filter(move |(_, kept)| is_own(kept)).map(|(liobn, kept)| (*liobn, kept.table))
    }

    /// The windows except the default one.
    fn created(&self, address: EndpointAddress) -> Vec<u32> {
        let default = self.endpoint(address).map(|endpoint| endpoint.liobn);
        self.of(address).map(|(liobn, _)| liobn).filter(|liobn| Some(*liobn) != default).collect()
    }

    /// Creates an endpoint's default window again, unless it exists.
    fn restore_default(&mut self, ram: &Ram, address: EndpointAddress) -> Option<()> {
        let window = self.endpoint(address)?.default_window();
        if self.tables.contains_key(&window.liobn) {
            return Some(());
        }
        let entries = window.bytes >> DEFAULT_PAGE_SHIFT;
        let table =
            Table { at: MemoryAddress(0), first: window.first, entries, page_shift: DEFAULT_PAGE_SHIFT };
        self.create_table(ram, address, window.liobn, table)
    }

    /// Allocates and clears the table of a window, and records it. `None` if there is no memory.
    fn create_table(&mut self, ram: &Ram, of: EndpointAddress, liobn: u32, table: Table) -> Option<()> {
        let free = &mut self.slots.get_mut(&of)?.free;
        let at = free.take(table_bytes(&table))?;
        ram.zero(at, table_bytes(&table)).ok()?;
        self.tables.insert(liobn, TableRecord { table: Table { at, ..table }, is_rescinded: false, of });
        Some(())
    }

    /// Removes a window and frees the memory of its table.
    fn drop_table(&mut self, liobn: u32) {
        let Some(TableRecord { table, of, .. }) = self.tables.remove(&liobn) else { return };
        if let Some(slot) = self.slots.get_mut(&of) {
            slot.free.add(MemoryRange { start: table.at, bytes: table_bytes(&table) });
        }
    }

    /// The lowest free address range from `from`, aligned to its size.
    fn place(&self, address: EndpointAddress, from: BusAddress, bytes: u64) -> Option<BusAddress> {
        let mut taken: Vec<Table> = self.of(address).map(|(_, table)| table).collect();
        taken.sort_unstable_by_key(|table| table.first);
        let mut first = from.0.checked_next_multiple_of(bytes)?;
        for table in taken {
            let last = first.checked_add(bytes - 1)?;
            if first <= table.last().0 && table.first.0 <= last {
                first = table.last().0.checked_add(1)?.checked_next_multiple_of(bytes)?;
            }
        }
        first.checked_add(bytes).map(|_| BusAddress(first))
    }
}

/// The size of a table in memory.
fn table_bytes(table: &Table) -> u64 {
    (table.entries * TCE_BYTES).next_multiple_of(TABLE_ALIGNMENT)
}
