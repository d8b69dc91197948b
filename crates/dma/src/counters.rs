//! Counters of what DMA mapping calls do.

use std::ops::{AddAssign, Sub};

/// What one call or many did besides executing instructions. Each call adds to the counters that its caller passes,
/// so that counting touches no shared memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DmaCounters {
    /// Mappings made; each element of a scatter list counts.
    pub mappings: u64,
    /// Mappings removed.
    pub unmappings: u64,
    /// Ranges of bus addresses allocated.
    pub allocations: u64,
    /// Ranges of bus addresses freed, at once or by a flush queue.
    pub frees: u64,
    /// Entries of a translation table written or cleared, by this CPU or the hypervisor.
    pub table_entries: u64,
    /// Pages of translation tables allocated.
    pub table_pages: u64,
    /// Hypercalls, and system calls of a user-space driver.
    pub hypercalls: u64,
    /// RTAS calls that query, create, remove or reset DMA windows.
    pub window_operations: u64,
    /// Invalidation commands submitted to an IOMMU.
    pub invalidations: u64,
    /// Waits for the completion of invalidation commands.
    pub invalidation_waits: u64,
    /// Bytes copied to and from bounce buffers.
    pub bounce_bytes: u64,
    /// Handovers of a buffer between CPU and adapter that need cache maintenance on a machine without coherent DMA.
    pub cache_syncs: u64,
}

/// Conversions of the counters to numbers in one order, and back. A field that is missing in the list does not compile.
macro_rules! numbers {
    ($($field:ident),+ $(,)?) => {
        impl DmaCounters {
            /// How many numbers these are.
            pub(crate) const COUNT: usize = [$(stringify!($field)),+].len();

            /// The numbers.
            pub(crate) fn to_array(self) -> [u64; Self::COUNT] {
                let Self { $($field),+ } = self;
                [$($field),+]
            }

            /// The counters of these numbers.
            pub(crate) fn from_array(numbers: [u64; Self::COUNT]) -> Self {
                let [$($field),+] = numbers;
                Self { $($field),+ }
            }
        }
    };
}

numbers!(
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
);

/// What came since an earlier reading.
impl Sub for DmaCounters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let mut since = self.to_array();
        for (number, before) in since.iter_mut().zip(earlier.to_array()) {
            *number = number.saturating_sub(before);
        }
        Self::from_array(since)
    }
}

impl AddAssign for DmaCounters {
    fn add_assign(&mut self, other: Self) {
        let mut sum = self.to_array();
        for (number, more) in sum.iter_mut().zip(other.to_array()) {
            *number += more;
        }
        *self = Self::from_array(sum);
    }
}
