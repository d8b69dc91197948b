//! VT-d's table without an IOTLB: entries are written and cleared, and nothing waits for an invalidation.

use dma::{
    Access, BusAddress, DmaCounters, Frames, MapError, MemoryAddress, Radix, Ram, TableError, Translation,
    UnmapError, Vtd, Walk, Walked, Window,
};
use std::sync::Arc;

/// Levels of the table, for addresses of 48 bits.
const LEVELS: u32 = 4;

/// A table in memory that an IOMMU would read.
pub(super) struct Tables {
    table: Radix<Vtd>,
    window: Window,
}

impl Tables {
    /// An empty table for the addresses of a window.
    pub(super) fn new(ram: &Arc<Ram>, frames: Frames, window: Window) -> Result<Self, TableError> {
        Ok(Self { table: Radix::new(Arc::clone(ram), Arc::new(frames), LEVELS)?, window })
    }

    /// The IOMMU's side of it.
    pub(super) fn walk(&self) -> Arc<dyn Walk> {
        Vtd::walker(&self.table)
    }
}

impl Translation for Tables {
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
        self.table.map(at, memory, bytes, access, counters).map(drop)
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        self.table.unmap(at, bytes, counters)
    }

    /// Only frees table pages that unmapping removed, since there is no IOTLB.
    fn invalidate(&self, at: BusAddress, bytes: u64, _counters: &mut DmaCounters) {
        self.table.invalidated(at, bytes, || {});
    }

    fn invalidate_all(&self, _counters: &mut DmaCounters) {
        self.table.all_invalidated(|| {});
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        self.table.find(at)
    }
}
