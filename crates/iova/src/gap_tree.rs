//! The free ranges in a tree that knows the largest below each of its nodes.

use crate::gaps::Gaps;
use crate::lock::Lock;
use crate::ranges::Ranges;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};

/// One lock, one tree of free ranges augmented with the largest of each subtree, and the ranges that are out.
///
/// Takes the lowest fit, so that the space stays in few pieces. Allocating and freeing cost O(log n) of the number of
/// ranges, expected; a request for a number of pages that is no power of two, yet aligned, may look at more. Whatever fits is
/// found.
#[derive(Debug)]
pub struct GapTree {
    pages: u64,
    ranges: Lock<Ranges>,
}

impl GapTree {
    /// An allocator of the space.
    ///
    /// # Errors
    /// If the space has no page, or some that no bus has.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let mut gaps = Gaps::default();
        space.free_ranges()?.into_iter().for_each(|range| gaps.add(range));
        Ok(Self { pages: gaps.pages(), ranges: Lock::new(Ranges::new(gaps)) })
    }
}

impl Allocator for GapTree {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_sensible() {
            return Err(AllocateError::Senseless);
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
