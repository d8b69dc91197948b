//! What calls of this layer cost.

use std::ops::AddAssign;

/// The toll of one call, or of many: counts of what was done besides executing instructions. Each call adds to the counters that it is
/// given, which is its caller's alone, so that counting costs no shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DmaCounters {
    /// Mappings made, each element of a scatter list for itself.
    pub mappings: u64,
    /// Mappings removed.
    pub unmappings: u64,
    /// Ranges of bus addresses allocated.
    pub allocations: u64,
    /// Ranges of bus addresses freed, at once or when a flush queue let them go.
    pub frees: u64,
    /// Entries of a translation table written or cleared, by this CPU or the hypervisor.
    pub table_entries: u64,
    /// Pages of translation tables allocated.
    pub table_pages: u64,
    /// Calls of the hypervisor, and of an operating system by a user-space driver.
    pub hypercalls: u64,
    /// DMA windows asked about, created, removed or reset.
    pub window_operations: u64,
    /// Invalidation commands given to an IOMMU.
    pub invalidations: u64,
    /// Times that the end of such commands was waited for.
    pub invalidation_waits: u64,
    /// Bytes copied to and from bounce buffers.
    pub bounce_bytes: u64,
    /// Hand-overs of a buffer between the CPU and the adapter that a machine without coherent DMA does cache maintenance for.
    pub cache_syncs: u64,
}

impl AddAssign for DmaCounters {
    fn add_assign(&mut self, other: Self) {
        // All fields named: a new one is not forgotten.
        let Self {
            mappings,
            unmappings,
            allocations,
            frees,
            table_entries,
            table_pages,
            hypercalls,
            window_operations,
            invalidations,
            invalidation_waits,
            bounce_bytes,
            cache_syncs,
        } = other;
        self.mappings += mappings;
        self.unmappings += unmappings;
        self.allocations += allocations;
        self.frees += frees;
        self.table_entries += table_entries;
        self.table_pages += table_pages;
        self.hypercalls += hypercalls;
        self.window_operations += window_operations;
        self.invalidations += invalidations;
        self.invalidation_waits += invalidation_waits;
        self.bounce_bytes += bounce_bytes;
        self.cache_syncs += cache_syncs;
    }
}
