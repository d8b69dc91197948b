//! A stretch of an I/O table's entries, one per page: a bitmap of those taken, searched from low to high.

use crate::bits::Bits;
use crate::starts::Starts;
use crate::{FreeError, Range, Request, Space, SpaceError, Usage};
use alloc::vec::Vec;

/// Most pages of a space that is kept in bitmaps: 16 TiB of bus in 4 KiB pages, two bits each, 1 GiB if all is touched.
const PAGES_MAX: u64 = 1 << 32;

/// Whether a space is small enough for bitmaps.
pub(crate) fn check_size(space: &Space) -> Result<(), SpaceError> {
    match space.pages() {
        pages if pages > PAGES_MAX => Err(SpaceError::TooLarge { pages, pages_max: PAGES_MAX }),
        _ => Ok(()),
    }
}

/// Entries are numbered from the table's first page on.
///
/// Its last entry is never handed out, nor the last one below a limit: Linux's `iommu_area_alloc` takes one off the size
/// it is given (`lib/iommu-helper.c`, 2.6.32 to 6.1).
#[derive(Debug)]
pub(crate) struct Table {
    taken: Bits,
    starts: Starts,
}

impl Table {
    /// For the pages of `span`, of which those outside `free` (in order) are reserved.
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

    pub(crate) fn entries(&self) -> u64 {
        self.taken.len()
    }

    /// The end of the entries that a request with this limit may search, as far as `end`: entries from there on are above
    /// the limit.
    pub(crate) fn end(&self, limit: u64, end: u64) -> u64 {
        match limit.checked_sub(self.starts.offset()) {
            Some(last) => end.min(last.saturating_add(1)),
            None => 0,
        }
    }

    /// Takes the lowest run that fits among the entries from `from` to the last but one before `end`, and says its first
    /// entry.
    pub(crate) fn take(&mut self, request: &Request, from: u64, end: u64) -> Option<u64> {
        let (pages, alignment, offset) = (request.pages, request.alignment_pages(), self.starts.offset());
        let first = self.taken.clear_run(from, end.saturating_sub(1), pages, alignment, offset)?;
        self.taken.set(first, first + pages - 1);
        self.starts.begin(first);
        Some(first)
    }

    /// The page of an entry.
    pub(crate) fn page(&self, entry: u64) -> u64 {
        self.starts.offset() + entry
    }

    pub(crate) fn free(&mut self, range: Range) -> Result<(), FreeError> {
        let (first, last) = self.starts.end(&self.taken, range)?;
        self.taken.clear(first, last);
        Ok(())
    }

    /// Adds this table to `usage`.
    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.allocated_pages += self.taken.set_count() - self.starts.reserved_pages();
        self.taken.clear_lengths(self.entries().saturating_sub(1)).for_each(|pages| usage.add_free(pages));
        usage.memory_bytes += self.taken.memory_bytes() + self.starts.memory_bytes();
    }
}
