//! The part of the space that is in no block.

use super::shape::class_of;
use crate::gaps::Gaps;
use crate::{AllocateError, FreeError, Range, Request};
use alloc::collections::BTreeMap;

/// Free ranges, and allocated ranges that are items of no block: large ones, and those allocated when blocks were not to be
/// had.
#[derive(Debug, Default)]
pub(crate) struct Central {
    pub(crate) gaps: Gaps,
    loose: BTreeMap<u64, Loose>,
}

/// An allocated range that is in no block.
#[derive(Debug, Clone, Copy)]
enum Loose {
    Exact {
        pages: u64,
    },
    /// Of a block that was dissolved, which knew only the class.
    Item {
        class: usize,
    },
}

impl Central {
    pub(crate) fn allocate(&mut self, request: &Request) -> Result<Range, AllocateError> {
        let range = self.gaps.take(request.pages, request.alignment_pages, request.limit);
        let range = range.ok_or_else(|| AllocateError::full(request))?;
        self.loose.insert(range.first, Loose::Exact { pages: range.pages });
        Ok(range)
    }

    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let loose = self.loose.get(&range.first).ok_or(FreeError::NotAllocated { first: range.first })?;
        let whole = match *loose {
            Loose::Exact { pages } if pages == range.pages => range,
            Loose::Item { class } if class == class_of(range.pages) => {
                Range { first: range.first, pages: 1 << class }
            }
            _ => return Err(FreeError::OtherSize { first: range.first, pages: range.pages }),
        };
        self.loose.remove(&range.first);
        self.gaps.add(whole);
        Ok(())
    }

    /// Takes apart a block that begins at `first`: its `free` items, out of all `items`, become free ranges, the others
    /// allocated ones.
    pub(crate) fn dissolve(&mut self, first: u64, class: usize, free: u64, items: u64) {
        let mut at = 0;
        while items >> at != 0 {
            if free >> at & 1 == 0 {
                self.loose.insert(first + (at << class), Loose::Item { class });
                at += 1;
            } else {
                let run = u64::from((!(free >> at)).trailing_zeros());
                self.gaps.add(Range { first: first + (at << class), pages: run << class });
                at += run;
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        // A B-tree's nodes are two thirds full on average (Yao, "On random 2-3 trees", 1978).
        let entry = size_of::<(u64, Loose)>() as u64;
        self.gaps.memory_bytes() + self.loose.len() as u64 * entry * 3 / 2
    }
}
