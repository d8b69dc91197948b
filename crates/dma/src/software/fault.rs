//! Accesses that an IOMMU did not let through.

use super::Requester;
use crate::{Access, BusAddress, NoMemory, WalkFault};
use std::collections::VecDeque;

/// An access that was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{requester}: {access} at {at} was blocked: {reason}")]
pub struct Fault {
    /// Who made it.
    pub requester: Requester,
    /// Where.
    pub at: BusAddress,
    /// Whether it was to read or to write.
    pub access: Access,
    /// Why.
    pub reason: Reason,
}

/// Why an access was blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The IOMMU knows nothing of the adapter.
    #[error("the adapter is attached to nothing")]
    NoContext,
    /// The table has no translation.
    #[error(transparent)]
    Walk(#[from] WalkFault),
    /// The page is not mapped for it.
    #[error("the page is mapped for {allowed} alone")]
    Denied {
        /// What it is mapped for.
        allowed: Access,
    },
    /// It leads to where no memory is.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// There is no address there: the transfer wraps around the end of all.
    #[error("beyond the last address")]
    BeyondBus,
}

/// Faults that were recorded, and how many were not for want of room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The oldest first.
    pub recorded: Vec<Fault>,
    /// How many came when the records were full.
    pub lost: u64,
}

/// As many records as the hardware has registers.
#[derive(Debug)]
pub(super) struct FaultLog {
    records: VecDeque<Fault>,
    records_max: usize,
    lost: u64,
}

impl FaultLog {
    pub(super) fn new(records_max: usize) -> Self {
        Self { records: VecDeque::new(), records_max, lost: 0 }
    }

    pub(super) fn add(&mut self, fault: Fault) {
        match self.records.len() < self.records_max {
            true => self.records.push_back(fault),
            false => self.lost += 1,
        }
    }

    pub(super) fn take(&mut self) -> Faults {
        Faults { recorded: self.records.drain(..).collect(), lost: std::mem::take(&mut self.lost) }
    }
}
