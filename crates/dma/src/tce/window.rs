//! A DMA window in which Linux maps.

use super::mapped_pages::MappedPages;
use super::partition::{Partition, Run, Stopped};
use super::{DefaultWindow, Status};
use crate::{
    Access, BusAddress, DmaCounters, Domain, ListRanges, MapError, MemoryAddress, Translation, UnmapError,
    Window,
};
use ddw::DEFAULT_PAGE_SHIFT;
use iova::{Pools, Space, SpaceError};
use std::sync::Arc;

/// A DMA window, or the part of it that is not mapped permanently. Each call writes entries by hypercall. The
/// hypervisor invalidates the hardware's cache itself.
///
/// A refused call maps nothing here. Linux does that only for `H_NOT_ENOUGH_RESOURCES`. For any other status it logs
/// an error and returns the address as if it were mapped (`tce_build_pSeriesLP`).
#[derive(Debug)]
pub struct TceWindow {
    partition: Arc<Partition>,
    liobn: u32,
    page_shift: u32,
    window: Window,
    mapped_pages: MappedPages,
}

impl TceWindow {
    /// The default window, with pages of 4 KiB.
    pub fn at_boot(partition: Arc<Partition>, window: &DefaultWindow) -> Self {
        let last = BusAddress(window.first.0 + (window.bytes - 1));
        Self::new(partition, window.liobn, DEFAULT_PAGE_SHIFT, window.first, last)
    }

    /// The addresses `first` to `last` of a window, whole pages.
    pub(super) fn new(
        partition: Arc<Partition>,
        liobn: u32,
        page_shift: u32,
        first: BusAddress,
        last: BusAddress,
    ) -> Self {
        let granule_bytes = 1 << page_shift;
        let window = Window { first, last, granule_bytes, reserved: Vec::new() };
        let mapped_pages = MappedPages::new((last.0 - first.0) / granule_bytes + 1);
        Self { partition, liobn, page_shift, window, mapped_pages }
    }

    /// LIOBN.
    pub fn liobn(&self) -> u32 {
        self.liobn
    }

    /// Whether anything is mapped.
    pub fn is_in_use(&self) -> bool {
        self.mapped_pages.any()
    }

    /// A domain with Linux's allocator: pools selected by a hash of the CPU, one range per scatter list element.
    /// Unlike Linux, a [`Domain`] aligns every range to its size, not only coherent memory.
    ///
    /// # Errors
    /// If the window has too many pages for the allocator.
    pub fn domain(self: &Arc<Self>) -> Result<Domain, SpaceError> {
        let (granule, cpu) = (self.window.granule_bytes, self.partition.cpu);
        // Pools begin at the table's first entry, and reserve bus address 0 themselves.
        let first = self.window.first.0 / granule;
        let pools = move |space: &Space| {
            let pools = Pools::new(&Space { first, ..space.clone() }, granule, cpu)?;
            Ok(Box::new(pools) as Box<_>)
        };
        Domain::builder(self.clone()).allocator(pools).lists(ListRanges::Each).any_addresses().assemble()
    }

    /// Index of the page at an address, if `bytes` fit into the window from there.
    fn index(&self, at: BusAddress, bytes: u64) -> Option<u64> {
        let last = at.0.checked_add(bytes.checked_sub(1)?)?;
        let is_within = self.window.first <= at && last <= self.window.last.0;
        is_within.then(|| (at.0 - self.window.first.0) >> self.page_shift)
    }

    /// Whether begin and size are multiples of the page size, and the size is not zero.
    fn is_whole_pages(&self, at: BusAddress, bytes: u64) -> bool {
        bytes > 0 && (at.0 | bytes) % self.window.granule_bytes == 0
    }

    /// Clears `entries` entries from a bus address on.
    fn clear(&self, at: BusAddress, entries: u64, counters: &mut DmaCounters) -> Result<(), Stopped> {
        self.partition.clear(self.liobn, at, self.page_shift, entries, counters)
    }
}

impl Translation for TceWindow {
    fn window(&self) -> &Window {
        &self.window
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        self.window.check(at, memory, bytes)?;
        let Window { first, last, .. } = self.window;
        let index = self.index(at, bytes).ok_or(MapError::Outside { at, bytes, first, last })?;
        memory.checked_add(bytes).ok_or(MapError::Unreachable { memory })?;
        let (page_shift, entries) = (self.page_shift, bytes >> self.page_shift);
        self.mapped_pages
            .set(index, entries)
            .map_err(|page| MapError::Mapped { at: BusAddress(first.0 + (page << page_shift)) })?;
        let run = Run { liobn: self.liobn, at, memory, entries, page_shift, access };
        self.partition.set(run, counters).map_err(|stopped| {
            // If clearing is refused too, the adapter keeps access; the pages stay marked.
            if self.clear(at, stopped.done, counters).is_ok() {
                let _ = self.mapped_pages.clear(index, entries);
            }
            MapError::Refused { what: stopped.call, why: stopped.status.to_string() }
        })
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        if !self.is_whole_pages(at, bytes) {
            return Err(UnmapError::Unaligned { at, bytes, granule_bytes: self.window.granule_bytes });
        }
        let (first, page_shift) = (self.window.first, self.page_shift);
        let index = self.index(at, bytes).ok_or(UnmapError::NotMapped { at })?;
        let entries = bytes >> page_shift;
        self.mapped_pages
            .clear(index, entries)
            .map_err(|page| UnmapError::NotMapped { at: BusAddress(first.0 + (page << page_shift)) })?;
        self.clear(at, entries, counters).map_err(|stopped| {
            // Clearing fails only if the whole window was taken back. Then the adapter can reach nothing through it.
            let _ = self.mapped_pages.set(index, entries);
            UnmapError::Refused { what: stopped.call, why: stopped.status.to_string() }
        })
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {}

    fn invalidate_all(&self, _counters: &mut DmaCounters) {}

    fn unmap_invalidates(&self) -> bool {
        true
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        let within = self.window.granule_bytes - 1;
        let page = BusAddress(at.0 & !within);
        self.index(page, 1)?;
        match self.partition.hypervisor().get_tce(self.liobn, page) {
            (Status::Success, entry) => entry.page().map(|page| MemoryAddress(page.0 | at.0 & within)),
            _ => None,
        }
    }
}
