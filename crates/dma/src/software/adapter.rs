//! An adapter's hands: reads and writes on the bus.

use super::{Fault, Reason, Requester, Unit};
use crate::{Access, BusAddress, MemoryAddress};
use std::sync::Arc;

/// No request of PCIe crosses a multiple of this.
const REQUEST_BYTES: u64 = 4096;

/// What reads and writes memory through an IOMMU, and in no other way.
#[derive(Debug, Clone)]
pub struct Adapter {
    unit: Arc<Unit>,
    requester: Requester,
}

/// What an access is led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translated {
    /// The memory.
    pub memory: MemoryAddress,
    /// The table was read for it, since the IOMMU did not remember it.
    pub is_walked: bool,
}

/// A transfer that was stopped by a fault. What came before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("after {done_bytes} bytes: {fault}")]
pub struct Stopped {
    /// Bytes that were transferred.
    pub done_bytes: usize,
    /// What stopped it.
    pub fault: Fault,
}

impl Adapter {
    pub(super) fn new(unit: Arc<Unit>, requester: Requester) -> Self {
        Self { unit, requester }
    }

    /// Reads from bus addresses.
    ///
    /// # Errors
    /// [`Stopped`]; then the rest of `into` is as it was.
    pub fn read(&self, at: BusAddress, into: &mut [u8]) -> Result<(), Stopped> {
        for (at, bytes) in requests(at, into.len()) {
            let done_bytes = bytes.start;
            let read = self.access(at, Access::Read, |ram, memory| ram.read(memory, &mut into[bytes]));
            read.map_err(|fault| Stopped { done_bytes, fault })?;
        }
        Ok(())
    }

    /// Writes to bus addresses.
    ///
    /// # Errors
    /// [`Stopped`]; then nothing behind what is done was written.
    pub fn write(&self, at: BusAddress, from: &[u8]) -> Result<(), Stopped> {
        for (at, bytes) in requests(at, from.len()) {
            let done_bytes = bytes.start;
            let written = self.access(at, Access::Write, |ram, memory| ram.write(memory, &from[bytes]));
            written.map_err(|fault| Stopped { done_bytes, fault })?;
        }
        Ok(())
    }

    /// Has an address translated as for an access that transfers nothing: what is walked to is remembered.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn translate(&self, at: BusAddress, access: Access) -> Result<Translated, Fault> {
        self.unit.translate(self.requester, at, access)
    }

    fn access(
        &self,
        at: Option<BusAddress>,
        access: Access,
        transfer: impl FnOnce(&crate::Ram, crate::MemoryAddress) -> Result<(), crate::NoMemory>,
    ) -> Result<(), Fault> {
        let requester = self.requester;
        match at {
            Some(at) => self.unit.access(requester, at, access, transfer),
            None => {
                let at = BusAddress(u64::MAX);
                Err(self.unit.record(Fault { requester, at, access, reason: Reason::BeyondBus }))
            }
        }
    }
}

/// The requests that a transfer takes, with the bytes that each has; nowhere behind the last address of all.
fn requests(
    at: BusAddress,
    bytes: usize,
) -> impl Iterator<Item = (Option<BusAddress>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = bytes.checked_sub(done).filter(|left| *left > 0)?;
        let next = at.checked_add(done as u64);
        let to_border = next.map_or(REQUEST_BYTES, |next| REQUEST_BYTES - next.0 % REQUEST_BYTES);
        let request = done..done + left.min(to_border as usize);
        done = request.end;
        Some((next, request))
    })
}
