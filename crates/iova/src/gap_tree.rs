//! The free ranges in a tree that knows the largest below each of its nodes.

use crate::gaps::Gaps;
use crate::lock::Lock;
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::collections::BTreeMap;

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

#[derive(Debug, Default)]
struct Ranges {
    gaps: Gaps,
    /// Pages by first page.
    out: BTreeMap<u64, u64>,
}

impl GapTree {
    /// An allocator of the space.
    ///
    /// # Errors
    /// If the space has no page, or some that no bus has.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let mut ranges = Ranges::default();
        space.free_ranges()?.into_iter().for_each(|range| ranges.gaps.add(range));
        Ok(Self { pages: ranges.gaps.pages(), ranges: Lock::new(ranges) })
    }
}

impl Allocator for GapTree {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_sensible() {
            return Err(AllocateError::Senseless);
        }
        let mut ranges = self.ranges.lock();
        let range = ranges.gaps.take(request.pages, request.alignment_pages(), request.limit);
        let range = range.ok_or(AllocateError::Full)?;
        ranges.out.insert(range.first, range.pages);
        Ok(range.first)
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        let mut ranges = self.ranges.lock();
        match ranges.out.get(&range.first) {
            None => Err(FreeError::NotAllocated),
            Some(pages) if *pages != range.pages => Err(FreeError::OtherSize),
            Some(_) => {
                ranges.out.remove(&range.first);
                ranges.gaps.add(range);
                Ok(())
            }
        }
    }

    fn usage(&self) -> Usage {
        let ranges = self.ranges.lock();
        let free_pages = ranges.gaps.pages();
        // A B-tree's nodes are two thirds full on average (Yao, "On random 2-3 trees", 1978).
        let out_bytes = (ranges.out.len() * size_of::<(u64, u64)>() * 3 / 2) as u64;
        Usage {
            allocated_pages: self.pages - free_pages,
            free_pages,
            cached_pages: 0,
            free_ranges: ranges.gaps.len(),
            largest_free_pages: ranges.gaps.largest_pages(),
            memory_bytes: ranges.gaps.memory_bytes() + out_bytes,
        }
    }
}
