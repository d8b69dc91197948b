//! The hypervisor of a POWER partition: it owns the TCE tables and serves the hypercalls.

use super::memory_range::MemoryRanges;
use super::rtas::{RtasCall, RtasStatus};
use super::windows::Windows;
use super::{Endpoint, EndpointAddress, EndpointError, Entry, MemoryRange, Properties, Status, Table};
use crate::{BusAddress, ByteOrder, MemoryAddress, Ram};
use ddw::{TCE_BYTES, TCES_PER_CALL_MAX};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists of entries are pages of this size.
const LIST_PAGE_BYTES: u64 = 4096;

/// Keeps the TCE tables of one partition, in memory that the partition does not own, and serves its calls one at a
/// time.
///
/// Statuses follow LoPAR (LPAR option, TCE hypercalls). As in KVM, all arguments are checked before anything is
/// written, so a failed call changes nothing. Unlike KVM, `H_STUFF_TCE` takes any value and at most 512 entries, as
/// LoPAR says.
#[derive(Debug)]
pub struct Hypervisor {
    ram: Arc<Ram>,
    has_multi: bool,
    entitlement_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) windows: Windows,
    /// The partition's memory, and what was taken back from it (rescinded).
    owned: MemoryRanges,
    rescinded: MemoryRanges,
    /// Bytes mapped by valid entries.
    mapped_bytes: u64,
    /// Statuses that the next RTAS calls return, set by tests.
    pub(super) answers: VecDeque<(RtasCall, RtasStatus)>,
}

/// Configuration, and actions of the hypervisor itself.
impl Hypervisor {
    /// A hypervisor whose partition owns `partition`. Of that, only the pages of lists must be in `ram`.
    pub fn new(ram: Arc<Ram>, partition: impl IntoIterator<Item = MemoryRange>) -> Self {
        let state = State { owned: partition.into_iter().collect(), ..State::default() };
        Self { ram, has_multi: true, entitlement_bytes: u64::MAX, state: Mutex::new(state) }
    }

    /// Without `H_PUT_TCE_INDIRECT` and `H_STUFF_TCE`.
    pub fn without_multi_tce(self) -> Self {
        Self { has_multi: false, ..self }
    }

    /// Limits how much memory may be mapped at a time (cooperative memory overcommitment).
    pub fn with_entitlement(self, bytes: u64) -> Self {
        Self { entitlement_bytes: bytes, ..self }
    }

    /// Adds an endpoint, with its default window.
    ///
    /// # Errors
    /// [`EndpointError`]
    pub fn add(&self, endpoint: Endpoint) -> Result<(), EndpointError> {
        let State { windows, owned, .. } = &mut *self.state();
        windows.add(&self.ram, endpoint, owned)
    }

    /// The device-tree properties of an endpoint.
    pub fn properties(&self, address: EndpointAddress) -> Option<Properties> {
        self.state().windows.endpoint(address).map(Endpoint::properties)
    }

    /// `ibm,hypertas-functions`.
    pub fn hypertas_functions(&self) -> &'static [&'static str] {
        match self.has_multi {
            true => &["hcall-tce", "hcall-multi-tce"],
            false => &["hcall-tce"],
        }
    }

    /// The table of a window, for a walk by the host bridge.
    pub fn table(&self, liobn: u32) -> Option<Table> {
        self.state().windows.table_record(liobn).map(|kept| kept.table)
    }

    /// Takes memory back from the partition. Entries for it stay, but their page numbers are hidden.
    pub fn reclaim_memory(&self, memory: MemoryRange) {
        let mut state = self.state();
        state.owned.remove(memory);
        state.rescinded.add(memory);
    }

    /// Takes a window back from the partition.
    pub fn rescind(&self, liobn: u32) {
        self.state().windows.rescind(liobn);
    }

    /// Makes the next RTAS calls of this kind return these statuses, one each, without doing anything. For tests.
    pub fn set_next_statuses(&self, call: RtasCall, statuses: impl IntoIterator<Item = RtasStatus>) {
        self.state().answers.extend(statuses.into_iter().map(|status| (call, status)));
    }

    /// The tables and the partition's memory, locked.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory that holds the tables.
    pub(super) fn ram(&self) -> &Ram {
        &self.ram
    }
}

/// The hypercalls. `at` is a bus address, not an index.
impl Hypervisor {
    /// `H_GET_TCE` (0x1c): reads an entry.
    pub fn get_tce(&self, liobn: u32, at: BusAddress) -> (Status, Entry) {
        let state = self.state();
        let read = state.place(liobn, at, 1).and_then(|(table, index)| {
            let entry = table.read(&self.ram, index).map_err(|_| Status::Parameter)?;
            Ok((entry, state.check(entry, &table)))
        });
        match read {
            Ok((entry, Ok(()))) => (Status::Success, entry),
            Ok((entry, Err(_))) => (Status::Partial, entry.with_hidden_page()),
            Err(status) => (status, Entry::NONE),
        }
    }

    /// `H_PUT_TCE` (0x20): writes an entry.
    pub fn put_tce(&self, liobn: u32, at: BusAddress, entry: Entry) -> Status {
        status(self.write(liobn, at, &[entry]))
    }

    /// `H_STUFF_TCE` (0x138): writes the same value to `count` entries.
    pub fn stuff_tce(&self, liobn: u32, at: BusAddress, entry: Entry, count: u64) -> Status {
        if !self.has_multi {
            return Status::Function;
        }
        if count > TCES_PER_CALL_MAX {
            return Status::P4;
        }
        status(self.write(liobn, at, &vec![entry; count as usize]))
    }

    /// `H_PUT_TCE_INDIRECT` (0x13c): writes `count` entries from a list in the partition's memory.
    pub fn put_tce_indirect(&self, liobn: u32, at: BusAddress, list: MemoryAddress, count: u64) -> Status {
        if !self.has_multi {
            return Status::Function;
        }
        if count > TCES_PER_CALL_MAX {
            return Status::Parameter;
        }
        status(self.list(list, count).and_then(|entries| self.write(liobn, at, &entries)))
    }

    /// Copies a list first: the partition may change it during the call.
    fn list(&self, list: MemoryAddress, count: u64) -> Result<Vec<Entry>, Status> {
        if list.0 % LIST_PAGE_BYTES != 0 {
            return Err(Status::Parameter);
        }
        self.state().owns(MemoryRange { start: list, bytes: LIST_PAGE_BYTES })?;
        let entry = |index| self.ram.read_u64(MemoryAddress(list.0 + index * TCE_BYTES), ByteOrder::Big);
        (0..count).map(|index| entry(index).map(Entry).map_err(|_| Status::Parameter)).collect()
    }

    /// Writes consecutive entries of a table; none if any of them is invalid.
    fn write(&self, liobn: u32, at: BusAddress, entries: &[Entry]) -> Result<(), Status> {
        let mut state = self.state();
        let (table, index) = state.place(liobn, at, entries.len() as u64)?;
        entries.iter().try_for_each(|entry| state.check(*entry, &table))?;
        let mapped_bytes = self.mapped_after(&state, &table, index, entries)?;
        for (index, entry) in (index..).zip(entries) {
            table.write(&self.ram, index, *entry).map_err(|_| Status::Parameter)?;
        }
        state.mapped_bytes = mapped_bytes;
        Ok(())
    }

    /// Bytes mapped after the entries are written, or an error if the entitlement does not allow that.
    fn mapped_after(
        &self,
        state: &State,
        table: &Table,
        index: u64,
        entries: &[Entry],
    ) -> Result<u64, Status> {
        let is_set = |entry: &Entry| entry.access().is_some();
        let were = |index: &u64| table.read(&self.ram, *index).is_ok_and(|entry| is_set(&entry));
        let before = (index..index + entries.len() as u64).filter(were).count() as u64;
        let after = entries.iter().filter(|entry| is_set(entry)).count() as u64;
        let kept = state.mapped_bytes.saturating_sub(before * table.page_bytes());
        let mapped = kept.saturating_add(after * table.page_bytes());
        if mapped <= self.entitlement_bytes { Ok(mapped) } else { Err(Status::NotEnoughResources) }
    }
}

impl State {
    /// The table of a window and the index of the entry for `at`, if `count` entries exist from there.
    fn place(&self, liobn: u32, at: BusAddress, count: u64) -> Result<(Table, u64), Status> {
        let kept = self.windows.table_record(liobn).ok_or(Status::Parameter)?;
        if kept.is_rescinded {
            return Err(Status::Rescinded);
        }
        let index = kept.table.index(at, count).ok_or(Status::Parameter)?;
        Ok((kept.table, index))
    }

    /// Checks that an entry refers to the partition's memory, or to no page.
    fn check(&self, entry: Entry, table: &Table) -> Result<(), Status> {
        let Some(page) = entry.page() else { return Ok(()) };
        if !entry.is_aligned(table.page_shift) {
            return Err(Status::Parameter);
        }
        self.owns(MemoryRange { start: page, bytes: table.page_bytes() })
    }

    /// Checks that the partition owns a range of memory.
    fn owns(&self, memory: MemoryRange) -> Result<(), Status> {
        match self.owned.contains(memory) {
            true => Ok(()),
            false if self.rescinded.overlaps(memory) => Err(Status::Rescinded),
            false => Err(Status::Parameter),
        }
    }
}

/// The return code of a hypercall.
fn status(done: Result<(), Status>) -> Status {
    done.err().unwrap_or(Status::Success)
}
