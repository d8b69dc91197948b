//! A request for a range of pages.

use crate::Range;

/// A request for pages of the I/O address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The number of pages, at least 1.
    pub pages: u64,
    /// The base-2 logarithm of the first page's alignment.
    pub alignment_order: u32,
    /// The highest page that the range may have: the device's DMA mask in granules.
    pub limit: u64,
    /// The first page of the memory to map, which only [`Direct`](crate::Direct) uses.
    pub memory: u64,
}

impl Request {
    /// A request for `pages` without alignment, up to page `limit`.
    #[inline]
    pub fn new(pages: u64, limit: u64) -> Self {
        Self { pages, alignment_order: 0, limit, memory: 0 }
    }

    /// A request for `pages`, aligned to their number rounded up to a power of two, as Linux's DMA layer makes it
    /// (`drivers/iommu/dma-iommu.c`).
    #[inline]
    pub fn size_aligned(pages: u64, limit: u64) -> Self {
        Self {
            alignment_order: pages.saturating_sub(1).checked_ilog2().map_or(0, |below| below + 1),
            ..Self::new(pages, limit)
        }
    }

    /// The range that was allocated for this request at page `first`.
    #[inline]
    pub fn range(&self, first: u64) -> Range {
        Range { first, pages: self.pages }
    }

    /// The alignment of the first page, in pages.
    pub fn alignment_pages(&self) -> u64 {
        1_u64.checked_shl(self.alignment_order).unwrap_or(u64::MAX)
    }

    /// Whether it has at least one page, and an alignment below 2^64.
    pub(crate) fn is_valid(&self) -> bool {
        self.pages > 0 && self.alignment_order < u64::BITS
    }
}
