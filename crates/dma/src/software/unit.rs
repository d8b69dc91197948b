//! The software IOMMU.

use super::domain_ids::DomainIds;
use super::fault::FaultLog;
use super::{Context, Fault, Faults, NoDomainId, Reason, Requester, SoftwareAdapter, Translated};
use crate::{Access, BusAddress, DomainId, Iotlb, IotlbStatistics, MemoryAddress, NoMemory, Ram};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An IOMMU between adapters and memory.
///
/// An access holds the lock from lookup to last byte. So when an invalidation returns, all accesses with the old
/// translation are complete, as after a hardware drain.
pub struct Unit {
    ram: Arc<Ram>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    iotlb: Iotlb,
    contexts: BTreeMap<Requester, Context>,
    faults: FaultLog,
    ids: DomainIds,
}

impl Unit {
    /// Default number of fault records.
    pub const FAULT_RECORDS: usize = 8;

    /// An IOMMU in front of `ram`, with an empty IOTLB and no adapter attached.
    pub fn new(ram: Arc<Ram>, iotlb: Iotlb) -> Self {
        let faults = FaultLog::new(Self::FAULT_RECORDS);
        let state = State { iotlb, contexts: BTreeMap::new(), faults, ids: DomainIds::default() };
        Self { ram, state: Mutex::new(state) }
    }

    /// Sets the number of fault records.
    pub fn with_fault_records(self, records: usize) -> Self {
        self.state().faults = FaultLog::new(records);
        self
    }

    /// The memory.
    pub fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }

    /// Sets an adapter's translation context.
    pub fn attach(&self, requester: Requester, context: Context) {
        self.state().contexts.insert(requester, context);
    }

    /// Removes an adapter's context: its accesses fault.
    pub fn detach(&self, requester: Requester) {
        self.state().contexts.remove(&requester);
    }

    /// The DMA interface of an adapter, attached or not.
    pub fn adapter(self: &Arc<Self>, requester: Requester) -> SoftwareAdapter {
        SoftwareAdapter::new(Arc::clone(self), requester)
    }

    /// Allocates a domain ID.
    ///
    /// # Errors
    /// [`NoDomainId`]
    pub fn allocate_domain_id(&self) -> Result<DomainId, NoDomainId> {
        self.state().ids.allocate()
    }

    /// Frees a domain ID, detaches its adapters and invalidates its translations.
    pub fn end_domain(&self, domain: DomainId) {
        let mut state = self.state();
        state.contexts.retain(|_, context| context.domain() != Some(domain));
        state.iotlb.invalidate_domain(domain);
        state.ids.free(domain);
    }

    /// Invalidates [at least](Iotlb::invalidate_pages) `bytes` from `at` in a domain.
    pub fn invalidate_pages(&self, domain: DomainId, at: BusAddress, bytes: u64) {
        self.state().iotlb.invalidate_pages(domain, at, bytes);
    }

    /// Invalidates a domain.
    pub fn invalidate_domain(&self, domain: DomainId) {
        self.state().iotlb.invalidate_domain(domain);
    }

    /// Invalidates everything.
    pub fn invalidate_all(&self) {
        self.state().iotlb.invalidate_all();
    }

    /// IOTLB statistics so far.
    pub fn statistics(&self) -> IotlbStatistics {
        self.state().iotlb.statistics()
    }

    /// Takes the faults recorded since the last call.
    pub fn take_faults(&self) -> Faults {
        self.state().faults.take()
    }

    /// Translates and performs an access, or records a fault. The access lies within 4 KiB.
    pub(super) fn access(
        &self,
        requester: Requester,
        at: BusAddress,
        access: Access,
        transfer: impl FnOnce(&Ram, MemoryAddress) -> Result<(), NoMemory>,
    ) -> Result<(), Fault> {
        let mut state = self.state();
        let memory = state.translate(&self.ram, requester, at, access).map(|found| found.memory);
        let done = memory.and_then(|memory| Ok(transfer(&self.ram, memory)?));
        done.map_err(|reason| state.record(Fault { requester, at, access, reason }))
    }

    /// Translates an address, or records a fault.
    pub(super) fn translate(
        &self,
        requester: Requester,
        at: BusAddress,
        access: Access,
    ) -> Result<Translated, Fault> {
        let mut state = self.state();
        let found = state.translate(&self.ram, requester, at, access);
        found.map_err(|reason| state.record(Fault { requester, at, access, reason }))
    }

    /// Records a fault.
    pub(super) fn record(&self, fault: Fault) -> Fault {
        self.state().record(fault)
    }

    /// The unit's tables and logs, locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Translates an address for a requester, through the IOTLB and the page table of its domain.
    fn translate(
        &mut self,
        ram: &Ram,
        requester: Requester,
        at: BusAddress,
        access: Access,
    ) -> Result<Translated, Reason> {
        match self.contexts.get(&requester).ok_or(Reason::NoContext)? {
            Context::Direct { offset } => {
                Ok(Translated { memory: MemoryAddress(at.0.wrapping_sub(*offset)), is_walked: false })
            }
            Context::Translated { domain, table } => {
                let mut is_walked = false;
                let leaf = self.iotlb.translate(*domain, at, |reads| {
                    is_walked = true;
                    table.walk(ram, at, reads)
                })?;
                match leaf.access.allows(access) {
                    true => Ok(Translated { memory: leaf.lead(at), is_walked }),
                    false => Err(Reason::Denied { allowed: leaf.access }),
                }
            }
        }
    }

    /// Records a fault and returns it.
    fn record(&mut self, fault: Fault) -> Fault {
        self.faults.add(fault);
        fault
    }
}

impl fmt::Debug for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unit").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}
