//! An allocator with a tree of free ranges, whose nodes know the largest range below them.

use crate::gaps::Gaps;
use crate::lock::Lock;
use crate::ranges::Ranges;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};

/// One lock, a tree of free ranges augmented with the largest range of each subtree, and a record of allocated ranges.
///
/// It allocates the lowest fit, which keeps fragmentation low. Allocating and freeing take expected O(log n) in the number
/// of ranges; an aligned request whose size is not a power of two may visit more nodes. An allocation fails only if nothing
/// fits.
#[derive(Debug)]
pub struct GapTree {
    pages: u64,
    ranges: Lock<Ranges>,
}

impl GapTree {
    /// An allocator of the space.
    ///
    /// # Errors
    /// If the space is invalid.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let mut gaps = Gaps::default();
        space.free_ranges()?.into_iter().for_each(|range| gaps.add(range));
        Ok(Self { pages: gaps.pages(), ranges: Lock::new(Ranges::new(gaps)) })
    }
}

impl Allocator for GapTree {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        let range = self.ranges.lock().allocate(request).ok_or(AllocateError::Full)?;
        Ok(range.first)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.ranges.lock().free(range)
    }

    fn usage(&self) -> Usage {
        let ranges = self.ranges.lock();
        let free_pages = ranges.gaps.pages();
        Usage {
            allocated_pages: self.pages - free_pages,
            free_pages,
            cached_pages: 0,
            free_ranges: ranges.gaps.len(),
            largest_free_pages: ranges.gaps.largest_pages(),
            memory_bytes: ranges.memory_bytes(),
        }
    }
}
