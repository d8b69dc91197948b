//! What the kernel was asked to map.

use crate::{Access, Bill, BusAddress, MapError, MemoryAddress, Ram, UnmapError, Window};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory that may be mapped, and what of it is: the kernel does not tell.
#[derive(Debug)]
pub(super) struct Book {
    memory: Arc<Ram>,
    window: Window,
    mapped: Mutex<BTreeMap<u64, Mapped>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Mapped {
    memory: MemoryAddress,
    pub(super) bytes: u64,
}

/// What is to be mapped, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) at: BusAddress,
    pub(super) memory: MemoryAddress,
    pub(super) bytes: u64,
    pub(super) access: Access,
}

impl Book {
    pub(super) fn new(memory: Arc<Ram>, window: Window) -> Self {
        Self { memory, window, mapped: Mutex::default() }
    }

    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// Maps by `call`, and notes it.
    pub(super) fn map(
        &self,
        wanted: Wanted,
        what: &'static str,
        bill: &mut Bill,
        call: impl FnOnce(Wanted) -> Result<i32, Errno>,
    ) -> Result<(), MapError> {
        self.window.check(wanted.at, wanted.memory, wanted.bytes)?;
        if !self.memory.holds(wanted.memory, wanted.bytes) {
            return Err(MapError::Unreachable { memory: wanted.memory });
        }
        let mut mapped = self.mapped();
        if let Some((at, _)) = overlapping(&mapped, wanted.at.0, wanted.bytes) {
            return Err(MapError::Mapped { at: BusAddress(at) });
        }
        bill.hypercalls += 1;
        call(wanted).map_err(|error| MapError::Refused { what, why: explained(error) })?;
        mapped.insert(wanted.at.0, Mapped { memory: wanted.memory, bytes: wanted.bytes });
        Ok(())
    }

    /// Unmaps by `call` whole mappings that follow each other without a gap.
    pub(super) fn unmap(
        &self,
        at: BusAddress,
        bytes: u64,
        what: &'static str,
        bill: &mut Bill,
        call: impl FnOnce() -> Result<i32, Errno>,
    ) -> Result<(), UnmapError> {
        let granule_bytes = self.window.granule_bytes;
        let end = at.0.checked_add(bytes).filter(|_| bytes > 0);
        let end = end.ok_or(UnmapError::Unaligned { at, bytes, granule_bytes })?;
        let mut mapped = self.mapped();
        let mut next = at.0;
        while next < end {
            let whole = mapped.get(&next).ok_or_else(|| match covering(&mapped, next) {
                Some((at, page)) => UnmapError::CutsPage { at: BusAddress(at), page_bytes: page.bytes },
                None => UnmapError::NotMapped { at: BusAddress(next) },
            })?;
            if whole.bytes > end - next {
                return Err(UnmapError::CutsPage { at: BusAddress(next), page_bytes: whole.bytes });
            }
            next += whole.bytes;
        }
        bill.hypercalls += 1;
        call().map_err(|error| UnmapError::Refused { what, why: explained(error) })?;
        while let Some((start, _)) = mapped.range(at.0..end).next().map(|(start, whole)| (*start, *whole)) {
            mapped.remove(&start);
        }
        Ok(())
    }

    pub(super) fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        let mapped = self.mapped();
        let (start, whole) = covering(&mapped, at.0)?;
        whole.memory.checked_add(at.0 - start)
    }

    fn mapped(&self) -> MutexGuard<'_, BTreeMap<u64, Mapped>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mapping that an address is in.
fn covering(mapped: &BTreeMap<u64, Mapped>, at: u64) -> Option<(u64, Mapped)> {
    let (start, whole) = mapped.range(..=at).next_back()?;
    (at - start < whole.bytes).then_some((*start, *whole))
}

/// A mapping that has an address in common with a range.
fn overlapping(mapped: &BTreeMap<u64, Mapped>, at: u64, bytes: u64) -> Option<(u64, Mapped)> {
    let inside = || mapped.range(at..at.saturating_add(bytes)).next().map(|(start, whole)| (*start, *whole));
    covering(mapped, at).or_else(inside)
}

/// The kernel's error, and what it usually means here (`drivers/vfio/vfio_iommu_type1.c`, `drivers/iommu/iommufd/io_pagetable.c`).
fn explained(error: Errno) -> String {
    let meaning = match error {
        Errno::NOMEM => "; more memory would be locked than `ulimit -l` allows, or there is none",
        Errno::NOSPC => "; more mappings than the module's parameter dma_entry_limit allows",
        Errno::EXIST | Errno::ADDRINUSE => "; mapped already, in this process or by a reserved range",
        Errno::INVAL => "; the address is in no range that the IOMMU has, or not whole pages",
        _ => "",
    };
    format!("{error}{meaning}")
}
