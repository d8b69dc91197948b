//! How an address space is used.

/// The state of an allocator at one moment; where other threads are at work, of a moment for each of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Pages in ranges that are out.
    pub allocated_pages: u64,
    /// Pages that can be handed out, wherever they are kept.
    pub free_pages: u64,
    /// Of the free pages those kept in caches, where only requests of some sizes or CPUs find them at once.
    pub cached_pages: u64,
    /// The free ranges outside caches.
    pub free_ranges: u64,
    /// The largest of them.
    pub largest_free_pages: u64,
    /// Memory that the allocator takes for itself.
    pub memory_bytes: u64,
}

impl Usage {
    /// Counts a free range outside caches.
    pub(crate) fn add_free(&mut self, pages: u64) {
        self.free_pages += pages;
        self.free_ranges += 1;
        self.largest_free_pages = self.largest_free_pages.max(pages);
    }

    /// How much of the free space outside caches a request for all of it would not get: 0 in one piece, close to 1 in crumbs.
    pub fn fragmentation(&self) -> f64 {
        match self.free_pages - self.cached_pages.min(self.free_pages) {
            0 => 0.0,
            free => 1.0 - self.largest_free_pages as f64 / free as f64,
        }
    }
}
