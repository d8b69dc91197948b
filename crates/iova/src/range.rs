//! A run of pages of the I/O address space.

use core::fmt;

/// Pages `first` to `first + pages - 1` of the I/O address space, numbered in granules: bus address = page x granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The first page.
    pub first: u64,
    /// The number of pages; never 0 in an allocated range.
    pub pages: u64,
}

impl Range {
    /// The range from page `first` to page `last`, inclusive.
    #[inline]
    pub fn between(first: u64, last: u64) -> Self {
        Self { first, pages: last.saturating_sub(first).saturating_add(1) }
    }

    /// The last page, saturating if an invalid range would overflow.
    #[inline]
    pub fn last(&self) -> u64 {
        self.first.saturating_add(self.pages.max(1) - 1)
    }

    /// Whether two ranges have a page in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}-{:#x}", self.first, self.last())
    }
}
