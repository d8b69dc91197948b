//! The central free ranges of a zone, and the ranges that were allocated directly from them.

use crate::gaps::Gaps;
use crate::ranges::Ranges;
use crate::{FreeError, Range, Request};

/// Free ranges that are in no stack or depot, and a record of the ranges that were allocated directly: those too large for
/// a class, and those of requests that the stacks could not satisfy.
#[derive(Debug)]
pub(crate) struct Central {
    ranges: Ranges,
    /// The lowest page of the zone.
    first: u64,
    /// The page above the highest that was ever allocated or moved to a stack.
    end: u64,
}

impl Central {
    /// A central store of free ranges.
    pub(crate) fn new(gaps: Gaps) -> Self {
        let first = gaps.first().unwrap_or(0);
        Self { ranges: Ranges::new(gaps), first, end: first }
    }

    /// The free ranges.
    pub(crate) fn gaps(&self) -> &Gaps {
        &self.ranges.gaps
    }

    /// Removes the lowest fit, to be cached in a stack.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Range> {
        let range = self.ranges.gaps.take(request.pages, request.alignment_pages(), request.limit)?;
        self.reach(range);
        Some(range)
    }

    /// Allocates the lowest fit directly, and records it.
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<u64> {
        let range = self.ranges.allocate(request)?;
        self.reach(range);
        Some(range.first)
    }

    /// Updates `end` for a range that was removed.
    fn reach(&mut self, range: Range) {
        self.end = self.end.max(range.first + range.pages);
    }

    /// Frees a range that was allocated directly. It can be allocated again as soon as the lock is released.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        self.ranges.free(range)
    }

    /// Adds cached free ranges of one class, given by their first pages, and returns their number of pages.
    pub(crate) fn take_back(&mut self, class: usize, mut firsts: impl AsMut<[u64]>) -> u64 {
        let firsts = firsts.as_mut();
        // Adjacent ranges are merged here, which is cheaper than in the tree.
        firsts.sort_unstable();
        for run in firsts.chunk_by(|one, next| one.wrapping_add(1 << class) == *next) {
            self.ranges.gaps.add(Range { first: run[0], pages: (run.len() as u64) << class });
        }
        (firsts.len() as u64) << class
    }

    /// The number of pages from the zone's lowest to the highest that was ever allocated or moved to a stack.
    pub(crate) fn reached_pages(&self) -> u64 {
        self.end - self.first
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.ranges.memory_bytes()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_reached_up_to_the_highest_that_was_taken() {
        let mut gaps = Gaps::default();
        gaps.add(Range { first: 5, pages: 20 });
        let mut central = Central::new(gaps);
        assert_eq!(central.reached_pages(), 0);
        assert_eq!(central.take(&Request::new(4, 99)), Some(Range { first: 5, pages: 4 }));
        assert_eq!(central.allocate(&Request::new(2, 99)), Some(9));
        assert_eq!(central.reached_pages(), 6);
        assert!(central.memory_bytes() >= size_of::<Range>() as u64);
        assert_eq!(central.take_back(1, [5, 7]), 4);
        assert_eq!((central.reached_pages(), central.gaps().len()), (6, 2));
        assert_eq!(central.free(Range { first: 9, pages: 2 }), Ok(()));
        assert_eq!((central.gaps().pages(), central.gaps().len()), (20, 1));
    }

    /// Where frees are not checked, a wrong one brings a range twice, but never its neighbour.
    #[test]
    fn a_range_that_comes_back_twice_is_added_once() {
        let mut gaps = Gaps::default();
        gaps.add(Range { first: 0, pages: 16 });
        let mut central = Central::new(gaps);
        assert_eq!(central.take(&Request::new(16, 99)), Some(Range { first: 0, pages: 16 }));
        central.take_back(2, [4, 4]);
        assert_eq!((central.gaps().pages(), central.gaps().first()), (4, Some(4)));
    }
}
