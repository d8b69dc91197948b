//! The red-black tree of allocated ranges of an IOMMU domain, as in Linux 6.x: the level below the magazines.
//!
//! A search goes downwards from the range where the last search of its kind ended; there is one such range for limits up
//! to 4 GiB, and one for higher limits. A search that reaches the bottom starts again at its limit and goes down to where
//! it started first. The smallest size that did not fit below 4 GiB is remembered until a range is freed there. Requests
//! of that size fail at once, even if the failed one had another limit, as in Linux.
//!
//! Source: `drivers/iommu/iova.c` of Linux 6.1 (`struct iova_domain`).

use crate::rbtree::{count_gaps, find_allocated, insert_reserved};
use crate::tree::{Index, NIL, Tree};
use crate::{FreeError, Range, Space, SpaceError, Usage};

/// The anchor, a range above all pages where the first searches start (`IOVA_ANCHOR`).
const ANCHOR: u64 = u64::MAX;

/// The allocated and reserved ranges, and where to start searches.
#[derive(Debug)]
pub(crate) struct Domain {
    tree: Tree,
    lowest: u64,
    last: u64,
    anchor: Index,
    /// The first page above 4 GiB (`dma_32bit_pfn`).
    end_32bit: u64,
    /// The range where searches start.
    cached: Index,
    /// The range where searches with a limit up to 4 GiB start.
    cached_32bit: Index,
    /// Requests of this many pages or more are known not to fit below 4 GiB (`max32_alloc_size`).
    full_pages_32bit: u64,
}

impl Domain {
    /// A domain of all pages of `space` that are not reserved. `page_32bit` is the last page below 4 GiB.
    pub(crate) fn new(space: &Space, page_32bit: u64) -> Result<Self, SpaceError> {
        let mut tree = Tree::new();
        let lowest = insert_reserved(&mut tree, space)?;
        let anchor = tree.reserve_highest(ANCHOR, ANCHOR);
        let end_32bit = page_32bit.saturating_add(1);
        Ok(Self {
            tree,
            lowest,
            last: space.last,
            anchor,
            end_32bit,
            cached: anchor,
            cached_32bit: anchor,
            full_pages_32bit: end_32bit,
        })
    }

    /// Allocates the first gap that fits and returns its first page.
    pub(crate) fn allocate(&mut self, pages: u64, alignment_pages: u64, limit: u64) -> Option<u64> {
        let end = limit.min(self.last) + 1;
        if end <= self.end_32bit && pages >= self.full_pages_32bit {
            return None;
        }
        let Some((first, above)) = self.search(pages, alignment_pages, end) else {
            self.full_pages_32bit = pages;
            return None;
        };
        let last = first + pages - 1;
        let node = self.tree.insert_below(above, first, last);
        *if last < self.end_32bit { &mut self.cached_32bit } else { &mut self.cached } = node;
        Some(first)
    }

    /// Searches from the cached range down, then from the limit down to the cached range. Returns the first page, and the
    /// range above it.
    fn search(&self, pages: u64, alignment_pages: u64, end: u64) -> Option<(u64, Index)> {
        let start = if end <= self.end_32bit { self.cached_32bit } else { self.cached };
        self.walk_down(start, pages, alignment_pages, end, self.lowest).or_else(|| {
            let passed = self.tree.last(start);
            (passed < end)
                .then(|| self.walk_down(self.start_below(end), pages, alignment_pages, end, passed + 1))
                .flatten()
        })
    }

    /// The range from which a search below page `end` starts: the lowest one that reaches `end`. For limits above 4 GiB it
    /// is the anchor, as in Linux.
    fn start_below(&self, end: u64) -> Index {
        if end > self.end_32bit { self.anchor } else { self.tree.reaching(end) }
    }

    /// Finds the highest gap that fits below range `above`, before page `end` and not below page `lowest`. Returns its
    /// first page, and the range above it.
    fn walk_down(
        &self,
        above: Index,
        pages: u64,
        alignment_pages: u64,
        end: u64,
        lowest: u64,
    ) -> Option<(u64, Index)> {
        let (mut above, mut end) = (above, end);
        loop {
            end = end.min(self.tree.first(above));
            let first = end.checked_sub(pages)? & !(alignment_pages - 1);
            let below = self.tree.below(above);
            if first < lowest {
                return None;
            }
            if below == NIL || first > self.tree.last(below) {
                return Some((first, above));
            }
            above = below;
        }
    }

    /// The size of the allocated range that begins at page `first`.
    pub(crate) fn pages_at(&self, first: u64) -> Option<u64> {
        let node = self.tree.find(first).filter(|&node| !self.tree.is_reserved(node))?;
        Some(self.tree.last(node) - first + 1)
    }

    /// Frees a range and moves the cached ranges, as Linux does.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let node = find_allocated(&self.tree, range)?;
        let above = self.tree.above(node);
        if range.last() < self.end_32bit && range.first >= self.tree.first(self.cached_32bit)
            || node == self.cached_32bit
        {
            self.cached_32bit = above;
        }
        if range.first < self.end_32bit {
            self.full_pages_32bit = self.end_32bit;
        }
        if range.first >= self.tree.first(self.cached) {
            self.cached = above;
        }
        self.tree.remove(node);
        Ok(())
    }

    /// Adds gaps and memory to the usage.
    pub(crate) fn count(&self, usage: &mut Usage) {
        count_gaps(&self.tree, self.lowest, self.last, usage);
        usage.memory_bytes += self.tree.memory_bytes();
    }

    /// The allocated ranges, without the reserved ones, from the highest down.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        let allocated = self.tree.downward().filter(|&node| !self.tree.is_reserved(node));
        allocated.map(|node| Range::between(self.tree.first(node), self.tree.last(node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_reaches_the_bottom_starts_again_at_its_limit() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        // Page 64 leaves a gap above it, which the next search finds only when it starts again.
        assert_eq!([domain.allocate(1, 64, 99), domain.allocate(63, 1, 99)], [Some(64), Some(1)]);
        assert_eq!(domain.allocate(35, 1, 99), Some(65));
        assert_eq!(domain.allocate(1, 1, 99), None);
    }

    #[test]
    fn a_size_that_did_not_fit_below_4_gib_fails_until_a_range_is_freed_there() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        let low = domain.allocate(8, 1, 20).unwrap();
        assert_eq!(domain.allocate(16, 1, 15), None, "a narrower limit");
        assert_eq!(domain.allocate(16, 1, 49), None, "though pages 21 to 49 are free");
        domain.free(Range { first: low, pages: 8 }).unwrap();
        assert_eq!(domain.allocate(16, 1, 49), Some(34));
    }
    #[test]
    fn searches_below_4_gib_start_where_the_last_such_search_ended() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        assert_eq!([domain.allocate(1, 32, 49), domain.allocate(1, 1, 99)], [Some(32), Some(99)]);
        domain.free(Range { first: 99, pages: 1 }).unwrap();
        assert_eq!(domain.allocate(1, 1, 49), Some(31), "a free above 4 GiB does not move the start");
        assert_eq!([domain.allocate(1, 1, 50), domain.allocate(1, 1, 99)], [Some(50), Some(49)]);
    }

    #[test]
    fn freeing_a_range_across_4_gib_makes_its_lower_part_available() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        assert_eq!([domain.allocate(4, 1, 51), domain.allocate(49, 1, 49)], [Some(48), None]);
        domain.free(Range { first: 48, pages: 4 }).unwrap();
        assert_eq!(domain.allocate(49, 1, 49), Some(1));
    }
}
