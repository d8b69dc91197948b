//! What is asked of an allocator.

/// A request for pages of the I/O address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How many pages, one or more.
    pub pages: u64,
    /// The first page is to be a multiple of this power of two.
    pub alignment_pages: u64,
    /// The last page may not be above this one: the device's DMA mask in granules.
    pub limit: u64,
    /// The first page of the memory to be mapped, which [`Direct`](crate::Direct) alone looks at.
    pub memory: u64,
}

impl Request {
    /// `pages` anywhere up to page `limit`.
    #[inline]
    pub fn new(pages: u64, limit: u64) -> Self {
        Self { pages, alignment_pages: 1, limit, memory: 0 }
    }

    /// `pages`, aligned to their number rounded up to a power of two, as Linux's DMA layer asks
    /// (`drivers/iommu/dma-iommu.c`).
    #[inline]
    pub fn size_aligned(pages: u64, limit: u64) -> Self {
        Self {
            alignment_pages: pages.checked_next_power_of_two().unwrap_or(1 << 63),
            ..Self::new(pages, limit)
        }
    }

    /// Whether it can be asked at all.
    pub(crate) fn is_sensible(&self) -> bool {
        self.pages > 0 && self.alignment_pages.is_power_of_two()
    }
}
