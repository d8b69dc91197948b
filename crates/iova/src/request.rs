//! What is asked of an allocator.

use crate::Range;

/// A request for pages of the I/O address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How many pages, one or more.
    pub pages: u64,
    /// The first page is to be a multiple of two to the power of this.
    pub alignment_order: u32,
    /// The last page may not be above this one: the device's DMA mask in granules.
    pub limit: u64,
    /// The first page of the memory to be mapped, which [`Direct`](crate::Direct) alone looks at.
    pub memory: u64,
}

impl Request {
    /// `pages` anywhere up to page `limit`.
    #[inline]
    pub fn new(pages: u64, limit: u64) -> Self {
        Self { pages, alignment_order: 0, limit, memory: 0 }
    }

    /// `pages`, aligned to their number rounded up to a power of two, as Linux's DMA layer asks
    /// (`drivers/iommu/dma-iommu.c`).
    #[inline]
    pub fn size_aligned(pages: u64, limit: u64) -> Self {
        Self {
            alignment_order: pages.saturating_sub(1).checked_ilog2().map_or(0, |below| below + 1),
            ..Self::new(pages, limit)
        }
    }

    /// The range that an allocator handed out for it at `first`.
    #[inline]
    pub fn range(&self, first: u64) -> Range {
        Range { first, pages: self.pages }
    }

    /// What the first page is to be a multiple of.
    pub fn alignment_pages(&self) -> u64 {
        1_u64.checked_shl(self.alignment_order).unwrap_or(u64::MAX)
    }

    /// Whether it can be asked at all.
    pub(crate) fn is_sensible(&self) -> bool {
        self.pages > 0 && self.alignment_order < u64::BITS
    }
}
