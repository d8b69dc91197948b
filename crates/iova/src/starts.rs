//! A bitmap of the pages where allocated ranges begin, with which bitmap allocators detect wrong frees.

use crate::bits::Bits;
use crate::{FreeError, Range};
use alloc::vec::Vec;

/// One bit per page, set where an allocated range begins. A range ends before the next start or the next free page.
///
/// Linux's bitmap allocators have no such bits and clear whatever the caller frees.
#[derive(Debug)]
pub(crate) struct Starts {
    /// The page of bit 0.
    offset: u64,
    bits: Bits,
    /// First and last bit of each run of reserved pages, in order. Their first bits are also set, because they end the
    /// range before them, but they can't be freed.
    reserved: Vec<(u64, u64)>,
}

impl Starts {
    /// Starts for `len` pages from page `offset` on. All pages are reserved except those in `free`, which must be sorted.
    pub(crate) fn new(offset: u64, len: u64, free: &[Range]) -> Self {
        let mut bits = Bits::new(len);
        let mut reserved = Vec::new();
        let mut next = 0;
        let ends = free.iter().map(|range| (range.first - offset, range.last() + 1 - offset));
        for (first, after) in ends.chain([(len, len)]) {
            if next < first {
                bits.set(next, next);
                reserved.push((next, first - 1));
            }
            next = after;
        }
        Self { offset, bits, reserved }
    }

    /// The page of bit 0.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// First and last bit of each run of reserved pages, in order.
    pub(crate) fn reserved(&self) -> &[(u64, u64)] {
        &self.reserved
    }

    /// The number of reserved pages.
    pub(crate) fn reserved_pages(&self) -> u64 {
        self.reserved.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Records an allocated range by its first bit.
    pub(crate) fn record(&mut self, first: u64) {
        self.bits.set(first, first);
    }

    /// Checks a range that is freed and removes it. Returns its first and last bit. `taken` has the bits of all allocated
    /// pages.
    pub(crate) fn remove(&mut self, taken: &Bits, range: Range) -> Result<(u64, u64), FreeError> {
        let first = self.find(range.first).ok_or(FreeError::NotAllocated)?;
        if !self.is_extent(taken, first, range.pages) {
            return Err(FreeError::OtherSize);
        }
        self.bits.clear(first, first);
        Ok((first, first + range.pages - 1))
    }

    /// The bit of the allocated range that begins at `page`.
    fn find(&self, page: u64) -> Option<u64> {
        let first = page.checked_sub(self.offset)?;
        let starts = first < self.bits.len() && self.bits.is_set(first);
        (starts && self.reserved.binary_search_by_key(&first, |run| run.0).is_err()).then_some(first)
    }

    /// Whether the range that begins at bit `first` has that many pages.
    fn is_extent(&self, taken: &Bits, first: u64, pages: u64) -> bool {
        let len = self.bits.len();
        let Some(after) = first.checked_add(pages).filter(|&after| first < after && after <= len) else {
            return false;
        };
        taken.are_all_set(first, after - 1)
            && self.bits.first_set(first + 1, after) == after
            && (after == len || self.bits.is_set(after) || !taken.is_set(after))
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bits.memory_bytes() + size_of_val(self.reserved.as_slice()) as u64
    }
}
