//! The part of the space that nobody keeps, and what is allocated of it piece by piece.

use crate::gaps::Gaps;
use crate::ranges::Ranges;
use crate::{FreeError, Range, Request};

/// Free ranges, and allocated ranges that are of no class: large ones, and those allocated when the CPUs' were not to be had.
#[derive(Debug)]
pub(crate) struct Central {
    ranges: Ranges,
    /// The lowest page, and the one above the highest that ever was taken.
    first: u64,
    end: u64,
}

impl Central {
    pub(crate) fn new(gaps: Gaps) -> Self {
        let first = gaps.first().unwrap_or(0);
        Self { ranges: Ranges::new(gaps), first, end: first }
    }

    pub(crate) fn gaps(&self) -> &Gaps {
        &self.ranges.gaps
    }

    /// Takes the lowest fit out, for ranges of a class.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Range> {
        let range = self.ranges.gaps.take(request.pages, request.alignment_pages(), request.limit)?;
        self.reach(range);
        Some(range)
    }

    /// The same for a range of no class.
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<u64> {
        let range = self.ranges.allocate(request)?;
        self.reach(range);
        Some(range.first)
    }

    fn reach(&mut self, range: Range) {
        self.end = self.end.max(range.first + range.pages);
    }

    /// Takes back a range of no class. Its first page can be handed out again as soon as the lock is free.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        self.ranges.free(range)
    }

    /// Takes back ranges of one class by their first pages, and says how many pages they have.
    pub(crate) fn take_back(&mut self, class: usize, mut firsts: impl AsMut<[u64]>) -> u64 {
        let firsts = firsts.as_mut();
        // Those that lie side by side are joined here rather than in the tree.
        firsts.sort_unstable();
        for run in firsts.chunk_by(|one, next| one + (1 << class) == *next) {
            self.ranges.gaps.add(Range { first: run[0], pages: (run.len() as u64) << class });
        }
        (firsts.len() as u64) << class
    }

    /// Pages from the lowest to the highest that ever was taken.
    pub(crate) fn reached_pages(&self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.ranges.memory_bytes()
    }
}
