//! Whether an allocator allocates at all: one that hands out a page twice is useless, however fast.

use iova::{Allocator, Range, Request, Space};
use std::collections::BTreeMap;

/// What an allocator did wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// It had no room in an empty space.
    #[error("no room for {pages} pages in a space that is nearly empty")]
    NoRoom {
        /// What was asked for.
        pages: u64,
    },
    /// Outside the space, or misaligned.
    #[error("asked for {pages} pages, aligned to {alignment_pages}, in {space}: it gave {range}")]
    Misplaced {
        /// What was asked for.
        pages: u64,
        /// Its alignment.
        alignment_pages: u64,
        /// Where it was to be.
        space: Range,
        /// What it gave.
        range: Range,
    },
    /// Handed out twice.
    #[error("it gave {range} while {other} was out")]
    Overlap {
        /// The later one.
        range: Range,
        /// The earlier one.
        other: Range,
    },
    /// It did not take back what it gave.
    #[error("it did not take back {range}")]
    Refused {
        /// What it gave.
        range: Range,
    },
}

/// Sizes that are asked for, again and again.
const SIZES: [u64; 8] = [1, 2, 1, 4, 3, 16, 1, 64];
/// Ranges that are out at the same time at most.
const OUT_MAX: usize = 256;
/// Allocations.
const STEPS: usize = 2048;

/// Allocates and frees some thousand ranges in one thread, and compares what is out.
pub(crate) fn check(allocator: &dyn Allocator, space: &Space) -> Result<(), CheckError> {
    let mut out: BTreeMap<u64, Range> = BTreeMap::new();
    for step in 0..STEPS {
        if out.len() == OUT_MAX {
            // Every third stays, so that holes of many sizes are left.
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
        placed(space, &request, range)?;
        let before = out.range(..=range.last()).next_back();
        if let Some((_, other)) = before.filter(|(_, other)| other.overlaps(&range)) {
            return Err(CheckError::Overlap { range, other: *other });
        }
        out.insert(range.first, range);
    }
    free_all(allocator, &mut out)
}

fn free_all(allocator: &dyn Allocator, out: &mut BTreeMap<u64, Range>) -> Result<(), CheckError> {
    while let Some((_, range)) = out.pop_first() {
        allocator.free(range).map_err(|_| CheckError::Refused { range })?;
    }
    Ok(())
}

fn placed(space: &Space, request: &Request, range: Range) -> Result<(), CheckError> {
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

    /// Gives the same page to all.
    struct Careless;

    impl Allocator for Careless {
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
    fn who_hands_out_a_page_twice_is_found() {
        let space = Space::new(1, 0xf_ffff);
        assert_eq!(check(&Direct::new(0), &space), Ok(()));
        assert!(matches!(check(&Careless, &space), Err(CheckError::Overlap { .. })));
        assert!(matches!(check(&Direct::new(1), &space), Err(CheckError::Misplaced { .. })));
        assert!(matches!(check(&Direct::new(1 << 30), &space), Err(CheckError::NoRoom { .. })));
    }
}
