//! Free ranges in a tree, and a record of the ranges allocated from it.

use crate::gaps::Gaps;
use crate::{FreeError, Range, Request};
use alloc::collections::BTreeMap;

/// Free ranges, and the ranges that were allocated from them.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) gaps: Gaps,
    /// The size of each allocated range by its first page.
    allocated: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn new(gaps: Gaps) -> Self {
        Self { gaps, allocated: BTreeMap::new() }
    }

    /// Allocates the lowest fit.
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<Range> {
        let range = self.gaps.take(request.pages, request.alignment_pages(), request.limit)?;
        self.allocated.insert(range.first, range.pages);
        Some(range)
    }

    /// Frees a range, after checking that it is allocated.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        match self.allocated.get(&range.first) {
            None => Err(FreeError::NotAllocated),
            Some(pages) if *pages != range.pages => Err(FreeError::OtherSize),
            Some(_) => {
                self.allocated.remove(&range.first);
                self.gaps.add(range);
                Ok(())
            }
        }
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A B-tree's nodes are two thirds full on average (Yao, "On random 2-3 trees", 1978).
        let allocated_bytes = (self.allocated.len() * size_of::<(u64, u64)>() * 3 / 2) as u64;
        self.gaps.memory_bytes() + allocated_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Benchmarks report this memory: two numbers per allocated range, in partly filled tree nodes.
    #[test]
    fn the_reported_memory_grows_with_allocated_ranges() {
        let mut gaps = Gaps::default();
        gaps.add(Range { first: 1, pages: 1 << 20 });
        let mut ranges = Ranges::new(gaps);
        let before = ranges.memory_bytes();
        assert_eq!(before, ranges.gaps.memory_bytes());
        for _ in 0..1000 {
            assert!(ranges.allocate(&Request::new(1, u64::MAX)).is_some());
        }
        let bytes = ranges.memory_bytes() - before;
        assert!((16_000..=32_000).contains(&bytes), "{bytes} bytes for 1,000 ranges");
    }
}
