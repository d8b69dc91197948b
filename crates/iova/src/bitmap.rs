//! The bitmap of powerpc before Linux 3.6: one lock, one bitmap of taken pages, next fit from two hints.
//!
//! Requests of up to 15 pages take the lower half of the table, larger ones the upper half, each from its own hint, which
//! is where the last one of its kind ended (rounded up to 16 entries for small ones: a cache line of table entries). What
//! does not fit there is tried from the start of its half, then in the other half. Freeing moves no hint, so that a page
//! is used again only after the search has come round.
//!
//! Source: `arch/powerpc/kernel/iommu.c` and `lib/iommu-helper.c` of Linux 2.6.32 to 3.5, also of RHEL 6.
//!
//! Allocating is O(n) in the pages of the table, 64 of them a step, and short where there is room behind the hint. Freeing
//! is O(pages), since it clears them. Memory is two bits per page. The second is ours: where ranges begin, by which wrong
//! frees are told from right ones; Linux clears whatever it is told to. Alignment is of the page, in Linux of the entry,
//! which is the same where the table begins at an aligned page.
//!
//! What it can't do: hand out the table's last page, or the page of the limit itself where the limit is within the table;
//! find room for a small range across the two halves, or on the last page of the lower one, unless a limit within the table
//! lifts the halves; and scale, as all threads take its one lock.

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
    /// All of `space` but what it reserves.
    ///
    /// # Errors
    /// If the space is wrong or has more than 2^32 pages.
    pub fn new(space: &Space) -> Result<Self, SpaceError> {
        let table = whole(space)?;
        let half = table.entries() / 2;
        Ok(Self(Lock::new(State { table, half, hint: 0, large_hint: half })))
    }
}

fn whole(space: &Space) -> Result<Table, SpaceError> {
    let free = space.free_ranges()?;
    check_size(space)?;
    Ok(Table::new(Range::between(space.first, space.last), &free))
}

/// Where the search for the next range begins after one that ended before entry `end`.
pub(crate) fn next_hint(request: &Request, end: u64) -> u64 {
    match request.pages > SMALL_PAGES_MAX {
        true => end,
        false => end.next_multiple_of(BLOCK_ENTRIES),
    }
}

impl State {
    fn allocate(&mut self, request: &Request) -> Option<u64> {
        let large = request.pages > SMALL_PAGES_MAX;
        let entries = self.table.entries();
        let (own, other) =
            if large { (self.half..entries, 0..entries) } else { (0..self.half, self.half..entries) };
        let hint = if large { self.large_hint } else { self.hint };
        let hint = if own.contains(&hint) { hint } else { own.start };
        let first = self
            .pass(request, hint, own.end, hint)
            .or_else(|| self.pass(request, own.start, own.end, 0))
            .or_else(|| self.pass(request, other.start, other.end, 0))?;
        let next = next_hint(request, first + request.pages);
        *if large { &mut self.large_hint } else { &mut self.hint } = next;
        Some(first)
    }

    /// Searches entries `from..end`; where the limit is below page `end`, those up to it, from the masked hint on if that
    /// is below the limit too, else from 0 on.
    fn pass(&mut self, request: &Request, from: u64, end: u64, hint: u64) -> Option<u64> {
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
        if !request.is_sensible() {
            return Err(AllocateError::Senseless);
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
