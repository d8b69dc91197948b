//! Statistics of an allocator.

/// Statistics of an allocator at one moment. While other threads use it, the parts are counted at different moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Pages in allocated ranges.
    pub allocated_pages: u64,
    /// Free pages, including cached ones.
    pub free_pages: u64,
    /// Free pages in caches, where only some CPUs and sizes find them directly.
    pub cached_pages: u64,
    /// The number of free ranges outside caches.
    pub free_ranges: u64,
    /// Pages of the largest free range outside caches.
    pub largest_free_pages: u64,
    /// Memory that the allocator itself uses.
    pub memory_bytes: u64,
}

impl Usage {
    /// Counts a free range outside caches.
    pub(crate) fn add_free(&mut self, pages: u64) {
        self.free_pages += pages;
        self.free_ranges += 1;
        self.largest_free_pages = self.largest_free_pages.max(pages);
    }

    /// The share of free pages outside caches that are not in the largest free range: 0 for one range, close to 1 for many
    /// small ones.
    pub fn fragmentation(&self) -> f64 {
        match self.free_pages - self.cached_pages.min(self.free_pages) {
            0 => 0.0,
            free => 1.0 - self.largest_free_pages as f64 / free as f64,
        }
    }
}
