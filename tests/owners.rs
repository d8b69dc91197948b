//! Who has which pages, to find ranges that overlap: for tests with many threads at an allocator.

use iova::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit per page: somebody has it.
pub(crate) struct Owners(Vec<AtomicU64>);

impl Owners {
    /// Nobody has any of the pages up to `last`.
    pub(crate) fn new(last: u64) -> Self {
        Self((0..=last / 64).map(|_| AtomicU64::new(0)).collect())
    }

    /// Somebody has the range from now on. Panics if another one has a page of it.
    pub(crate) fn enter(&self, range: Range) {
        for page in range.first..=range.last() {
            let before = self.0[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::AcqRel);
            assert_eq!(before & 1 << (page % 64), 0, "page {page:#x} of {range} has an owner already");
        }
    }

    /// Nobody has the range any more. Panics if nobody had a page of it.
    pub(crate) fn leave(&self, range: Range) {
        for page in range.first..=range.last() {
            let before = self.0[(page / 64) as usize].fetch_and(!(1 << (page % 64)), Ordering::AcqRel);
            assert_ne!(before & 1 << (page % 64), 0, "page {page:#x} of {range} has no owner");
        }
    }
}
