//! The tree of one IOMMU domain as of Linux 6.x: what lies under the magazines.
//!
//! A red-black tree of what is taken, searched downwards from the range where the last search of its kind ended: one for
//! limits up to 4 GiB, one for wider ones. A search that comes to the bottom begins once more at its real limit and goes
//! down to where it had begun. The least size that did not fit below 4 GiB is remembered until something is freed there,
//! and requests for as much fail at once, even where the one that failed had another limit, as in Linux.
//!
//! Source: `drivers/iommu/iova.c` of Linux 6.1 (`struct iova_domain`).

use crate::rbtree::{count_gaps, find_allocated, plant};
use crate::tree::{Index, NIL, Tree};
use crate::{FreeError, Range, Space, SpaceError, Usage};

/// The anchor, above all pages, where searches begin at first (`IOVA_ANCHOR`).
const ANCHOR: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Domain {
    tree: Tree,
    lowest: u64,
    last: u64,
    anchor: Index,
    /// The first page above 4 GiB (`dma_32bit_pfn`).
    end_32bit: u64,
    cached: Index,
    cached_32bit: Index,
    /// Requests of so many pages are known not to fit below 4 GiB (`max32_alloc_size`).
    full_pages_32bit: u64,
}

impl Domain {
    /// All of `space` but what it reserves. `page_32bit` is the last page below 4 GiB.
    pub(crate) fn new(space: &Space, page_32bit: u64) -> Result<Self, SpaceError> {
        let mut tree = Tree::new();
        let lowest = plant(&mut tree, space)?;
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

    /// Takes the first gap that fits, and says its first page.
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

    /// From the cached range down, then from the limit down to the cached range.
    fn search(&self, pages: u64, alignment_pages: u64, end: u64) -> Option<(u64, Index)> {
        let start = if end <= self.end_32bit { self.cached_32bit } else { self.cached };
        self.walk(start, pages, alignment_pages, end, self.lowest).or_else(|| {
            let passed = self.tree.last(start);
            (passed < end)
                .then(|| self.walk(self.start_below(end), pages, alignment_pages, end, passed + 1))
                .flatten()
        })
    }

    /// The lowest range that pages before `end` may lie under. Above 4 GiB Linux does not look for it.
    fn start_below(&self, end: u64) -> Index {
        if end > self.end_32bit { self.anchor } else { self.tree.reaching(end) }
    }

    /// The first page of the highest gap under range `above`, before page `end` and from `lowest` on, and the range
    /// that it lies under.
    fn walk(
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

    /// How many pages the allocated range has that begins there.
    pub(crate) fn find(&self, first: u64) -> Option<u64> {
        let node = self.tree.find(first).filter(|&node| !self.tree.is_reserved(node))?;
        Some(self.tree.last(node) - first + 1)
    }

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

    /// Counts gaps and memory.
    pub(crate) fn count(&self, usage: &mut Usage) {
        count_gaps(&self.tree, self.lowest, self.last, usage);
        usage.memory_bytes += self.tree.memory_bytes();
    }

    /// The allocated ranges.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        let allocated = self.tree.downward().filter(|&node| !self.tree.is_reserved(node));
        allocated.map(|node| Range::between(self.tree.first(node), self.tree.last(node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_begins_again_at_its_limit() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        // Page 64 leaves a gap above it, which the next search passes by and finds on its second way down.
        assert_eq!([domain.allocate(1, 64, 99), domain.allocate(63, 1, 99)], [Some(64), Some(1)]);
        assert_eq!(domain.allocate(35, 1, 99), Some(65));
        assert_eq!(domain.allocate(1, 1, 99), None);
    }

    #[test]
    fn what_did_not_fit_below_4_gib_fails_at_once_until_something_is_freed_there() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        let low = domain.allocate(8, 1, 20).unwrap();
        assert_eq!(domain.allocate(16, 1, 15), None, "a narrower limit");
        assert_eq!(domain.allocate(16, 1, 49), None, "though pages 21 to 49 are free");
        domain.free(Range { first: low, pages: 8 }).unwrap();
        assert_eq!(domain.allocate(16, 1, 49), Some(34));
    }
    #[test]
    fn searches_below_4_gib_begin_where_the_last_such_one_ended() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        assert_eq!([domain.allocate(1, 32, 49), domain.allocate(1, 1, 99)], [Some(32), Some(99)]);
        domain.free(Range { first: 99, pages: 1 }).unwrap();
        assert_eq!(domain.allocate(1, 1, 49), Some(31), "what is freed above leaves this be");
        assert_eq!([domain.allocate(1, 1, 50), domain.allocate(1, 1, 99)], [Some(50), Some(49)]);
    }

    #[test]
    fn a_range_across_4_gib_is_freed_below_too() {
        let mut domain = Domain::new(&Space::new(1, 99), 49).unwrap();
        assert_eq!([domain.allocate(4, 1, 51), domain.allocate(49, 1, 49)], [Some(48), None]);
        domain.free(Range { first: 48, pages: 4 }).unwrap();
        assert_eq!(domain.allocate(49, 1, 49), Some(1));
    }
}
