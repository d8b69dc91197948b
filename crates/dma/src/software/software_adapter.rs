//! An adapter's DMA: reads and writes by bus address.

use super::{Fault, Reason, Requester, Unit};
use crate::{Access, BusAddress, MemoryAddress};
use std::sync::Arc;

/// A PCIe request never crosses a multiple of this.
const REQUEST_BYTES: u64 = 4096;

/// An adapter, which accesses memory only through the IOMMU.
#[derive(Debug, Clone)]
pub struct SoftwareAdapter {
    unit: Arc<Unit>,
    requester: Requester,
}

/// The result of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translated {
    /// The memory address.
    pub memory: MemoryAddress,
    /// The translation missed the IOTLB, so the table was walked.
    pub is_walked: bool,
}

/// A transfer stopped by a fault. The bytes before the fault were transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("after {done_bytes} bytes: {fault}")]
pub struct Stopped {
    /// Bytes transferred.
    pub done_bytes: usize,
    /// The fault.
    pub fault: Fault,
}

impl SoftwareAdapter {
    /// An adapter behind a unit, with its requester ID.
    pub(super) fn new(unit: Arc<Unit>, requester: Requester) -> Self {
        Self { unit, requester }
    }

    /// Reads `into.len()` bytes from a bus address.
    ///
    /// # Errors
    /// [`Stopped`]; then the rest of `into` is unchanged.
    pub fn read(&self, at: BusAddress, into: &mut [u8]) -> Result<(), Stopped> {
        for (at, bytes) in requests(at, into.len()) {
            let done_bytes = bytes.start;
            let read = self.access(at, Access::Read, |ram, memory| ram.read(memory, &mut into[bytes]));
            read.map_err(|fault| Stopped { done_bytes, fault })?;
        }
        Ok(())
    }

    /// Writes bytes to a bus address.
    ///
    /// # Errors
    /// [`Stopped`]; then nothing after the faulting request was written.
    pub fn write(&self, at: BusAddress, from: &[u8]) -> Result<(), Stopped> {
        for (at, bytes) in requests(at, from.len()) {
            let done_bytes = bytes.start;
            let written = self.access(at, Access::Write, |ram, memory| ram.write(memory, &from[bytes]));
            written.map_err(|fault| Stopped { done_bytes, fault })?;
        }
        Ok(())
    }

    /// Translates an address without an access. A table walk fills the IOTLB.
    ///
    /// # Errors
    /// [`Fault`]
    pub fn translate(&self, at: BusAddress, access: Access) -> Result<Translated, Fault> {
        self.unit.translate(self.requester, at, access)
    }

    /// Translates an address and runs `transfer` on the memory there. `None` is an address beyond 64 bits, which faults.
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

/// Splits a transfer into PCIe requests, each with its range of bytes; the address is `None` beyond the last one.
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
