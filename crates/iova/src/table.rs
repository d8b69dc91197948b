//! The entries of a translation table, one per page, with a bitmap of allocated entries that is searched upwards.

use crate::bits::Bits;
use crate::starts::Starts;
use crate::{FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::vec::Vec;

/// The largest space of bitmap allocators: 16 TiB of bus addresses in 4 KiB pages. Its two bits per page take 1 GiB if all
/// are used.
const PAGES_MAX: u64 = 1 << 32;

/// Checks that a space is small enough for bitmaps.
pub(crate) fn check_size(space: &Space) -> Result<(), SpaceError> {
    match space.pages() {
        pages if pages > PAGES_MAX => Err(SpaceError::TooLarge { pages, pages_max: PAGES_MAX }),
        _ => Ok(()),
    }
}

/// A table, whose entries are numbered from its first page on.
///
/// Its last entry is never allocated, nor the last one below a limit: Linux's `iommu_area_alloc` subtracts one from the
/// size (`lib/iommu-helper.c`, 2.6.32 to 6.1).
#[derive(Debug)]
pub(crate) struct Table {
    taken: Bits,
    starts: Starts,
}

impl Table {
    /// A table of the pages of `span`. All are reserved except those in `free`, which must be sorted.
    pub(crate) fn new(span: Range, free: &[Range]) -> Self {
        let within = |range: &Range| {
            let (first, last) = (range.first.max(span.first), range.last().min(span.last()));
            (first <= last && span.pages > 0).then(|| Range::between(first, last))
        };
        let free: Vec<Range> = free.iter().filter_map(within).collect();
        let starts = Starts::new(span.first, span.pages, &free);
        let mut taken = Bits::new(span.pages);
        for &(first, last) in starts.reserved() {
            taken.set(first, last);
        }
        Self { taken, starts }
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.taken.len()
    }

    /// The end of the entries that a request with this limit may use, at most `end`.
    pub(crate) fn end(&self, limit: u64, end: u64) -> u64 {
        match limit.checked_sub(self.starts.offset()) {
            Some(last) => end.min(last.saturating_add(1)),
            None => 0,
        }
    }

    /// Allocates the lowest run of entries that fits between `from` and the second-last before `end`. Returns its first
    /// entry.
    pub(crate) fn take(&mut self, request: &Request, from: u64, end: u64) -> Option<u64> {
        let (pages, alignment, offset) = (request.pages, request.alignment_pages(), self.starts.offset());
        let first = self.taken.clear_run(from, end.saturating_sub(1), pages, alignment, offset)?;
        self.taken.set(first, first + pages - 1);
        self.starts.record(first);
        Some(first)
    }

    /// The page of an entry.
    pub(crate) fn page(&self, entry: u64) -> u64 {
        self.starts.offset() + entry
    }

    /// Frees a range, after checking that it is allocated.
    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let (first, last) = self.starts.remove(&self.taken, range)?;
        self.taken.clear(first, last);
        Ok(())
    }

    /// Adds the table's pages and memory to `usage`.
    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.allocated_pages += self.taken.set_count() - self.starts.reserved_pages();
        self.taken.clear_lengths(self.entries().saturating_sub(1)).for_each(|pages| usage.add_free(pages));
        usage.memory_bytes += self.taken.memory_bytes() + self.starts.memory_bytes();
    }
}
