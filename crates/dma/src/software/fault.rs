//! DMA faults: accesses that an IOMMU blocked.

use super::Requester;
use crate::{Access, BusAddress, NoMemory, WalkFault};
use std::collections::VecDeque;

/// An access that an IOMMU blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{requester}: {access} at {at} was blocked: {reason}")]
#[non_exhaustive]
pub struct Fault {
    /// The adapter.
    pub requester: Requester,
    /// The bus address.
    pub at: BusAddress,
    /// Read or write.
    pub access: Access,
    /// The reason.
    pub reason: Reason,
}

/// Why an access was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The adapter is not attached to a domain.
    #[error("the adapter is not attached to a domain")]
    NoContext,
    /// The table has no translation for the address.
    #[error(transparent)]
    Walk(#[from] WalkFault),
    /// The page does not allow the access.
    #[error("the page is mapped for {allowed} only")]
    Denied {
        /// The access that the page allows.
        allowed: Access,
    },
    /// The translation leads outside the memory.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// The transfer wraps around the end of the address space.
    #[error("beyond the last address")]
    BeyondBus,
}

/// Recorded faults, and the number of those that did not fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// The oldest first.
    pub recorded: Vec<Fault>,
    /// Faults that came when all records were in use.
    pub lost: u64,
}

/// Fault records, as many as the hardware has.
#[derive(Debug)]
pub(super) struct FaultLog {
    records: VecDeque<Fault>,
    records_max: usize,
    lost: u64,
}

impl FaultLog {
    /// An empty log of at most `records_max` faults.
    pub(super) fn new(records_max: usize) -> Self {
        Self { records: VecDeque::new(), records_max, lost: 0 }
    }

    /// Records a fault, or counts it as lost if the log is full.
    pub(super) fn add(&mut self, fault: Fault) {
        match self.records.len() < self.records_max {
            true => self.records.push_back(fault),
            false => self.lost += 1,
        }
    }

    /// Removes all records and returns them, with the number of lost ones.
    pub(super) fn take(&mut self) -> Faults {
        Faults { recorded: self.records.drain(..).collect(), lost: std::mem::take(&mut self.lost) }
    }
}
