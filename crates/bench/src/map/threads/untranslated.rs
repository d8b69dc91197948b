//! A translation without a table: what remains of a mapping is the allocation of its addresses.

use dma::{Access, BusAddress, DmaCounters, MapError, MemoryAddress, Translation, UnmapError, Window};

/// Maps nothing.
pub(super) struct Untranslated(pub(super) Window);

impl Translation for Untranslated {
    fn window(&self) -> &Window {
        &self.0
    }

    fn map(
        &self,
        _at: BusAddress,
        _memory: MemoryAddress,
        _bytes: u64,
        _access: Access,
        _counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) -> Result<(), UnmapError> {
        Ok(())
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {}

    fn invalidate_all(&self, _counters: &mut DmaCounters) {}

    fn unmap_invalidates(&self) -> bool {
        true
    }

    fn find(&self, _at: BusAddress) -> Option<MemoryAddress> {
        None
    }
}
