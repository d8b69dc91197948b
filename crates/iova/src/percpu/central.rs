//! The part of the space that nobody keeps, and what is allocated of it piece by piece.

use crate::gaps::Gaps;
use crate::{FreeError, Range, Request};
use alloc::collections::BTreeMap;

/// Free ranges, and allocated ranges that are of no class: large ones, and those allocated when the CPUs' were not to be had.
#[derive(Debug, Default)]
pub(crate) struct Central {
    gaps: Gaps,
    /// Pages by first page.
    loose: BTreeMap<u64, u64>,
    /// The lowest page, and the one above the highest that ever was taken.
    first: u64,
    end: u64,
}

impl Central {
    pub(crate) fn new(gaps: Gaps) -> Self {
        let first = gaps.first().unwrap_or(0);
        Self { gaps, loose: BTreeMap::new(), first, end: first }
    }

    pub(crate) fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    /// Takes the lowest fit out.
    pub(crate) fn take(&mut self, request: &Request) -> Option<Range> {
        let range = self.gaps.take(request.pages, request.alignment_pages(), request.limit)?;
        self.end = self.end.max(range.first + range.pages);
        Some(range)
    }

    /// The same for a range of no class.
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<u64> {
        let range = self.take(request)?;
        self.loose.insert(range.first, range.pages);
        Some(range.first)
    }

    /// Takes back a range of no class. Its first page can be handed out again as soon as the lock is free.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        match self.loose.get(&range.first) {
            None => Err(FreeError::NotAllocated),
            Some(pages) if *pages != range.pages => Err(FreeError::OtherSize),
            Some(_) => {
                self.loose.remove(&range.first);
                self.gaps.add(range);
                Ok(())
            }
        }
    }

    /// Takes back ranges of one class by their first pages, and says how many pages they have.
    pub(crate) fn take_back(&mut self, class: usize, mut firsts: impl AsMut<[u64]>) -> u64 {
        let firsts = firsts.as_mut();
        // Those that lie side by side are joined here rather than in the tree.
        firsts.sort_unstable();
        for run in firsts.chunk_by(|one, next| one + (1 << class) == *next) {
            self.gaps.add(Range { first: run[0], pages: (run.len() as u64) << class });
        }
        (firsts.len() as u64) << class
    }

    /// Pages from the lowest to the highest that ever was taken.
    pub(crate) fn reached_pages(&self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        // A B-tree's nodes are two thirds full on average (Yao, "On random 2-3 trees", 1978).
        let entry = size_of::<(u64, u64)>() as u64;
        self.gaps.memory_bytes() + self.loose.len() as u64 * entry * 3 / 2
    }
}
