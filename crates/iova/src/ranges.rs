//! Free ranges in a tree, and ranges that are out beside it.

use crate::gaps::Gaps;
use crate::{FreeError, Range, Request};
use alloc::collections::BTreeMap;

/// What is free, and what was handed out of it range by range.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) gaps: Gaps,
    /// Pages by first page.
    out: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn new(gaps: Gaps) -> Self {
        Self { gaps, out: BTreeMap::new() }
    }

    /// Takes the lowest fit.
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<Range> {
        let range = self.gaps.take(request.pages, request.alignment_pages(), request.limit)?;
        self.out.insert(range.first, range.pages);
        Some(range)
    }

    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        match self.out.get(&range.first) {
            None => Err(FreeError::NotAllocated),
            Some(pages) if *pages != range.pages => Err(FreeError::OtherSize),
            Some(_) => {
                self.out.remove(&range.first);
                self.gaps.add(range);
                Ok(())
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        // A B-tree's nodes are two thirds full on average (Yao, "On random 2-3 trees", 1978).
        let out_bytes = (self.out.len() * size_of::<(u64, u64)>() * 3 / 2) as u64;
        self.gaps.memory_bytes() + out_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What benches report as its memory: two numbers for each range that is out, in a tree that is partly empty.
    #[test]
    fn memory_grows_with_what_is_out() {
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
