//! The hypervisor: who may write what into which table.

use super::rtas::{RtasCall, RtasStatus};
use super::stretch::Stretches;
use super::windows::Windows;
use super::{Endpoint, EndpointAddress, EndpointError, Entry, Properties, Status, Stretch, Table};
use crate::{BusAddress, ByteOrder, MemoryAddress, Ram};
use ddw::{TCE_BYTES, TCES_PER_CALL_MAX};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists of entries lie at pages of this size.
const LIST_PAGE_BYTES: u64 = 4096;

/// Keeps the tables of one partition's adapters, in memory that is not the partition's, and serves its calls one after another.
///
/// Statuses are those of LoPAR (chapter on the LPAR option, TCE hypercalls). All arguments of a call are looked at before
/// anything is written, as KVM does, so that a call that fails has done nothing. Unlike KVM it takes any value in
/// `H_STUFF_TCE`, as LoPAR has it, and no more than 512 entries.
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
    /// The partition's memory, and what was taken back from it.
    owned: Stretches,
    rescinded: Stretches,
    /// What entries that are set lead to.
    mapped_bytes: u64,
    /// What the firmware's next calls are to be answered.
    pub(super) answers: VecDeque<(RtasCall, RtasStatus)>,
}

/// Setting it up, and what it does by itself.
impl Hypervisor {
    /// With a partition that owns this memory, which need not be in `ram` but for the pages that lists are in.
    pub fn new(ram: Arc<Ram>, partition: impl IntoIterator<Item = Stretch>) -> Self {
        let state = State { owned: partition.into_iter().collect(), ..State::default() };
        Self { ram, has_multi: true, entitlement_bytes: u64::MAX, state: Mutex::new(state) }
    }

    /// Without `H_PUT_TCE_INDIRECT` and `H_STUFF_TCE`.
    pub fn without_multi_tce(self) -> Self {
        Self { has_multi: false, ..self }
    }

    /// With at most so much memory mapped for adapters at a time (cooperative memory overcommitment).
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

    /// What the device tree says of an endpoint.
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

    /// The table of a window, as the host bridge knows it.
    pub fn table(&self, liobn: u32) -> Option<Table> {
        self.state().windows.kept(liobn).map(|kept| kept.table)
    }

    /// Takes memory back from the partition. Entries that lead there stay, and are veiled.
    pub fn take_back(&self, memory: Stretch) {
        let mut state = self.state();
        state.owned.remove(memory);
        state.rescinded.add(memory);
    }

    /// Takes a window back from the partition.
    pub fn rescind(&self, liobn: u32) {
        self.state().windows.rescind(liobn);
    }

    /// Lets the firmware answer the next calls of this kind so, one each, and do nothing.
    pub fn answer_next(&self, call: RtasCall, statuses: impl IntoIterator<Item = RtasStatus>) {
        self.state().answers.extend(statuses.into_iter().map(|status| (call, status)));
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ram(&self) -> &Ram {
        &self.ram
    }
}

/// The hypercalls. `at` is a bus address, not a number of an entry.
impl Hypervisor {
    /// `H_GET_TCE` (0x1c): the entry of a page.
    pub fn get_tce(&self, liobn: u32, at: BusAddress) -> (Status, Entry) {
        let state = self.state();
        let read = state.place(liobn, at, 1).and_then(|(table, index)| {
            let entry = table.read(&self.ram, index).map_err(|_| Status::Parameter)?;
            Ok((entry, state.check(entry, &table)))
        });
        match read {
            Ok((entry, Ok(()))) => (Status::Success, entry),
            Ok((entry, Err(_))) => (Status::Partial, entry.veiled()),
            Err(status) => (status, Entry::NONE),
        }
    }

    /// `H_PUT_TCE` (0x20): sets the entry of a page.
    pub fn put_tce(&self, liobn: u32, at: BusAddress, entry: Entry) -> Status {
        status(self.write(liobn, at, &[entry]))
    }

    /// `H_STUFF_TCE` (0x138): sets the entries of `count` pages to one value.
    pub fn stuff_tce(&self, liobn: u32, at: BusAddress, entry: Entry, count: u64) -> Status {
        if !self.has_multi {
            return Status::Function;
        }
        if count > TCES_PER_CALL_MAX {
            return Status::P4;
        }
        status(self.write(liobn, at, &vec![entry; count as usize]))
    }

    /// `H_PUT_TCE_INDIRECT` (0x13c): sets the entries of `count` pages to those of a list in the partition's memory.
    pub fn put_tce_indirect(&self, liobn: u32, at: BusAddress, list: MemoryAddress, count: u64) -> Status {
        if !self.has_multi {
            return Status::Function;
        }
        if count > TCES_PER_CALL_MAX {
            return Status::Parameter;
        }
        status(self.list(list, count).and_then(|entries| self.write(liobn, at, &entries)))
    }

    /// Copies a list: the partition may change it meanwhile.
    fn list(&self, list: MemoryAddress, count: u64) -> Result<Vec<Entry>, Status> {
        if !list.0.is_multiple_of(LIST_PAGE_BYTES) {
            return Err(Status::Parameter);
        }
        self.state().owns(Stretch { start: list, bytes: LIST_PAGE_BYTES })?;
        let entry = |index| self.ram.read_u64(MemoryAddress(list.0 + index * TCE_BYTES), ByteOrder::Big);
        (0..count).map(|index| entry(index).map(Entry).map_err(|_| Status::Parameter)).collect()
    }

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

    /// What will be mapped once the entries are written, if the partition may have so much.
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
    /// The table of a window, and the number of the entry from which on `count` are asked for.
    fn place(&self, liobn: u32, at: BusAddress, count: u64) -> Result<(Table, u64), Status> {
        let kept = self.windows.kept(liobn).ok_or(Status::Parameter)?;
        if kept.is_rescinded {
            return Err(Status::Rescinded);
        }
        let index = kept.table.index(at, count).ok_or(Status::Parameter)?;
        Ok((kept.table, index))
    }

    /// An entry may name a page of the partition's memory, or none.
    fn check(&self, entry: Entry, table: &Table) -> Result<(), Status> {
        let Some(page) = entry.page() else { return Ok(()) };
        if !entry.is_aligned(table.page_shift) {
            return Err(Status::Parameter);
        }
        self.owns(Stretch { start: page, bytes: table.page_bytes() })
    }

    fn owns(&self, memory: Stretch) -> Result<(), Status> {
        match self.owned.contains(memory) {
            true => Ok(()),
            false if self.rescinded.overlaps(memory) => Err(Status::Rescinded),
            false => Err(Status::Parameter),
        }
    }
}

fn status(done: Result<(), Status>) -> Status {
    done.err().unwrap_or(Status::Success)
}
