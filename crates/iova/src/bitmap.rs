//! The allocator of powerpc before Linux 3.6: one lock, one bitmap of allocated pages, next fit from two hints.
//!
//! Requests of up to 15 pages are searched in the lower half of the table, larger ones in the upper half. Each kind has a
//! hint, which is where its last allocation ended (for small ones rounded up to 16 entries, a cache line of table
//! entries). A search starts at the hint, continues from the start of its half, and then in the other half. Freeing does
//! not move the hints, so that a page is reused only after the search has wrapped around.
//!
//! Source: `arch/powerpc/kernel/iommu.c` and `lib/iommu-helper.c` of Linux 2.6.32 to 3.5, also of RHEL 6.
//!
//! Allocating is O(n) in the pages of the table, 64 per step, and fast if pages behind the hint are free. Freeing
//! is O(pages), since it clears their bits. Memory is two bits per page. The second bit, which Linux does not have, marks
//! where ranges begin and detects wrong frees. Alignment refers to the page number, in Linux to the entry's index; they
//! agree if the table begins at an aligned page.
//!
//! Limits, as in Linux: it never allocates the table's last page, nor the page of a limit within the table. A small range
//! is not found across the two halves, or on the last page of the lower half, unless a limit within the table disables the
//! halves. It does not scale, because all threads share one lock.

use crate::lock::Lock;
use crate::table::{Table, check_size};
use crate::{AllocateError, Allocator, FreeError, Range, Request, Space, SpaceError, Usage};

/// Requests of more pages than this are large.
pub(crate) const SMALL_PAGES_MAX: u64 = 15;

/// Entries of 8 bytes in a cache line of 128 bytes (`it_blocksize`).
const BLOCK_ENTRIES: u64 = 16;

/// One lock, one bitmap, next fit: powerpc before Linux 3.6.
#[derive(Debug)]
pub struct Bitmap(Lock<State>);

#[derive(Debug)]
struct State {
    table: Table,
    half: u64,
    hint: u64,
    large_hint: u64,
}

impl Bitmap {
    /// An allocator of all pages of `space` that are not reserved.
    ///
    /// # Errors
    /// If the space is invalid or has more than 2^32 pages.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let table = new_table(space)?;
        let half = table.entries() / 2;
        Ok(Self(Lock::new(State { table, half, hint: 0, large_hint: half })))
    }
}

/// A table of the whole space.
fn new_table(space: &Space) -> Result<Table, SpaceError> {
    let free = space.free_ranges()?;
    check_size(space)?;
    Ok(Table::new(Range::between(space.first, space.last), &free))
}

/// The hint for the next search after an allocation that ended before entry `end`.
pub(crate) fn next_hint(request: &Request, end: u64) -> u64 {
    match request.pages > SMALL_PAGES_MAX {
        true => end,
        false => end.next_multiple_of(BLOCK_ENTRIES),
    }
}

impl State {
    /// Allocates a range and returns the index of its first entry.
    fn allocate(&mut self, request: &Request) -> Option<u64> {
        let large = request.pages > SMALL_PAGES_MAX;
        let entries = self.table.entries();
        let (own, other) =
            if large { (self.half..entries, 0..entries) } else { (0..self.half, self.half..entries) };
        let hint = if large { self.large_hint } else { self.hint };
        let hint = if own.contains(&hint) { hint } else { own.start };
        let first = self
            .search(request, hint, own.end, hint)
            .or_else(|| self.search(request, own.start, own.end, 0))
            .or_else(|| self.search(request, other.start, other.end, 0))?;
        let next = next_hint(request, first + request.pages);
        *if large { &mut self.large_hint } else { &mut self.hint } = next;
        Some(first)
    }

    /// Searches entries `from..end` and allocates the first fit. If the limit is below page `end`, it searches up to the
    /// limit, from the hint masked by the limit if that is below the limit, else from 0.
    fn search(&mut self, request: &Request, from: u64, end: u64, hint: u64) -> Option<u64> {
        let limited = self.table.end(request.limit, end);
        let from = match self.table.page(end) > request.limit {
            true => Some(hint & request.limit).filter(|&hint| hint < limited).unwrap_or(0),
            false => from,
        };
        self.table.take(request, from, limited)
    }
}

impl Allocator for Bitmap {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        if !request.is_valid() {
            return Err(AllocateError::InvalidRequest);
        }
        let mut state = self.0.lock();
        let entry = state.allocate(request).ok_or(AllocateError::Full)?;
        Ok(state.table.page(entry))
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.0.lock().table.free(range)
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.0.lock().table.count(&mut usage);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_masks_the_hint() {
        let bitmap = Bitmap::new(&Space::new(0, 1023)).unwrap();
        let firsts =
            [1023, 1023, 1023, 1023, 1023, 63].map(|limit| bitmap.allocate(&Request::new(1, limit)).unwrap());
        assert_eq!(firsts, [0, 16, 32, 48, 64, 17], "80 masked by 63 is 16");
        assert_eq!(bitmap.allocate(&Request::new(16, 1023)), Ok(512), "a large range in the upper half");
    }
}
