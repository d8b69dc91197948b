//! Checks that an allocator works before it is measured.

use iova::{Allocator, Range, Request, Space};
use std::collections::BTreeMap;

/// A fault of an allocator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// An allocation failed in a nearly empty space.
    #[error("an allocation of {pages} pages failed in a space that is nearly empty")]
    NoRoom {
        /// Pages requested.
        pages: u64,
    },
    /// The result is outside the space, or misaligned.
    #[error("{pages} pages aligned to {alignment_pages} were requested in {space}, but {range} was returned")]
    Misplaced {
        /// Pages requested.
        pages: u64,
        /// Alignment requested.
        alignment_pages: u64,
        /// The space.
        space: Range,
        /// The result.
        range: Range,
    },
    /// A range was allocated twice.
    #[error("{range} was returned while {other} was allocated")]
    Overlap {
        /// The later one.
        range: Range,
        /// The earlier one.
        other: Range,
    },
    /// A free failed.
    #[error("{range} was allocated, but freeing it failed")]
    Refused {
        /// The range.
        range: Range,
    },
}

/// Sizes requested, in turn.
const SIZES: [u64; 8] = [1, 2, 1, 4, 3, 16, 1, 64];
/// Most ranges allocated at a time.
const OUT_MAX: usize = 256;
/// Number of allocations.
const STEPS: usize = 2048;

/// Allocates and frees some thousand ranges in one thread, and checks them against each other.
pub(crate) fn check(allocator: &dyn Allocator, space: &Space) -> Result<(), CheckError> {
    let mut out: BTreeMap<u64, Range> = BTreeMap::new();
    for step in 0..STEPS {
        if out.len() == OUT_MAX {
            // Keep every third, so that holes of many sizes remain.
            for range in out.extract_if(.., |first, _| first % 3 != 0).map(|(_, range)| range) {
                allocator.free(range).map_err(|_| CheckError::Refused { range })?;
            }
        }
        if out.len() == OUT_MAX {
            free_all(allocator, &mut out)?;
        }
        let pages = SIZES[step % SIZES.len()];
        let memory = space.first.next_multiple_of(64) + 64 * step as u64;
        let request = Request { memory, ..Request::size_aligned(pages, space.last) };
        let first = allocator.allocate(&request).map_err(|_| CheckError::NoRoom { pages })?;
        let range = request.range(first);
        check_position(space, &request, range)?;
        let before = out.range(..=range.last()).next_back();
        if let Some((_, other)) = before.filter(|(_, other)| other.overlaps(&range)) {
            return Err(CheckError::Overlap { range, other: *other });
        }
        out.insert(range.first, range);
    }
    free_all(allocator, &mut out)
}

/// Frees all allocated ranges.
fn free_all(allocator: &dyn Allocator, out: &mut BTreeMap<u64, Range>) -> Result<(), CheckError> {
    while let Some((_, range)) = out.pop_first() {
        allocator.free(range).map_err(|_| CheckError::Refused { range })?;
    }
    Ok(())
}

/// Checks that an allocated range is in the space, below the request's limit and aligned.
fn check_position(space: &Space, request: &Request, range: Range) -> Result<(), CheckError> {
    let inside = range.first >= space.first && range.last() <= request.limit;
    match inside && range.first.is_multiple_of(request.alignment_pages()) {
        true => Ok(()),
        false => Err(CheckError::Misplaced {
            pages: request.pages,
            alignment_pages: request.alignment_pages(),
            space: Range::between(space.first, space.last),
            range,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iova::{AllocateError, Direct, FreeError, Usage};

    /// Returns the same page for every request.
    struct SamePage;

    impl Allocator for SamePage {
        fn allocate(&self, _request: &Request) -> Result<u64, AllocateError> {
            Ok(64)
        }

        fn free(&self, _range: Range) -> Result<(), FreeError> {
            Ok(())
        }

        fn usage(&self) -> Usage {
            Usage::default()
        }
    }

    #[test]
    fn faulty_allocators_are_found() {
        let space = Space::new(1, 0xf_ffff);
        assert_eq!(check(&Direct::new(0), &space), Ok(()));
        assert!(matches!(check(&SamePage, &space), Err(CheckError::Overlap { .. })));
        assert!(matches!(check(&Direct::new(1), &space), Err(CheckError::Misplaced { .. })));
        assert!(matches!(check(&Direct::new(1 << 30), &space), Err(CheckError::NoRoom { .. })));
    }
}
