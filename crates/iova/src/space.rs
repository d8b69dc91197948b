//! The I/O address space that an allocator manages.

use crate::Range;
use alloc::vec::Vec;

/// The highest page that allocators support: the last of a 64-bit bus with the smallest granule, 4 KiB.
pub const PAGE_MAX: u64 = (1 << 52) - 1;

/// An I/O address space: pages `first` to `last`, except reserved ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// The lowest page. Linux never allocates page 0.
    pub first: u64,
    /// The highest page.
    pub last: u64,
    /// Pages that are never allocated: windows of host bridges, message-signalled interrupts. In any order; ranges may overlap
    /// and be outside the space.
    pub reserved: Vec<Range>,
}

/// Why a space is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    /// It has no page.
    #[error("the space {first:#x}-{last:#x} has no page; expected a last page at or above the first")]
    Empty {
        /// Its lowest page.
        first: u64,
        /// Its highest page.
        last: u64,
    },
    /// It has pages beyond a 64-bit bus.
    #[error(
        "the space ends at page {last:#x}; expected at most {PAGE_MAX:#x}, the last of a 64-bit bus in 4 KiB pages"
    )]
    TooHigh {
        /// Its highest page.
        last: u64,
    },
    /// It is larger than the allocator supports.
    #[error("the space has {pages} pages; expected at most {pages_max} for this allocator")]
    TooLarge {
        /// Its number of pages.
        pages: u64,
        /// The allocator's limit.
        pages_max: u64,
    },
}

impl Space {
    /// A space without reserved pages.
    pub fn new(first: u64, last: u64) -> Self {
        Self { first, last, reserved: Vec::new() }
    }

    /// The number of its pages, including reserved ones.
    pub fn pages(&self) -> u64 {
        self.last.saturating_add(1).saturating_sub(self.first)
    }

    /// Its ranges that are not reserved, sorted by address and not adjacent.
    ///
    /// # Errors
    /// If the space has no page, or pages beyond a 64-bit bus.
    pub fn free_ranges(&self) -> Result<Vec<Range>, SpaceError> {
        if self.last > PAGE_MAX {
            return Err(SpaceError::TooHigh { last: self.last });
        }
        if self.first > self.last {
            return Err(SpaceError::Empty { first: self.first, last: self.last });
        }
        let mut reserved: Vec<Range> =
            self.reserved.iter().filter(|range| range.pages > 0).copied().collect();
        reserved.sort_unstable();
        let mut free = Vec::new();
        let mut next = self.first;
        for range in reserved {
            if range.first > self.last {
                break;
            }
            if range.first > next {
                free.push(Range::between(next, range.first - 1));
            }
            next = next.max(range.last().saturating_add(1));
        }
        if next <= self.last {
            free.push(Range::between(next, self.last));
        }
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_not_reserved_are_free() {
        let check = |reserved: &[(u64, u64)], expected: &[(u64, u64)]| {
            let range = |&(first, last): &(u64, u64)| Range::between(first, last);
            let space = Space { first: 10, last: 99, reserved: reserved.iter().map(range).collect() };
            assert_eq!(space.free_ranges(), Ok(expected.iter().map(range).collect()), "{reserved:?}");
        };
        check(&[], &[(10, 99)]);
        check(&[(20, 29), (25, 39)], &[(10, 19), (40, 99)]);
        check(&[(90, u64::MAX), (0, 10)], &[(11, 89)]);
        check(&[(200, 300), (0, 5)], &[(10, 99)]);
        check(&[(0, 1000)], &[]);
    }

    #[test]
    fn spaces_without_pages_are_errors() {
        assert_eq!(Space::new(5, 4).free_ranges(), Err(SpaceError::Empty { first: 5, last: 4 }));
        assert_eq!(Space::new(5, 1 << 52).free_ranges(), Err(SpaceError::TooHigh { last: 1 << 52 }));
    }
}
