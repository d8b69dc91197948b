//! Ranges of bus addresses, and the memory they are mapped to.

use super::{GRANULE_BITS, INDEX_BITS};
use crate::FRAME_BYTES;

/// `bytes` from an address. It may end with the last 64-bit address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// A range and the memory that it is to be mapped to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) span: Span,
    pub(super) memory: u64,
}

/// Log2 of the range that one entry of a level covers.
pub(super) fn entry_bits(level: u32) -> u32 {
    GRANULE_BITS + level * INDEX_BITS
}

impl Span {
    /// Whether begin and size are multiples of 4 KiB, and the size is not zero.
    pub(super) fn is_whole_pages(self) -> bool {
        (self.at | self.bytes) % FRAME_BYTES == 0 && self.bytes > 0
    }

    /// Whether its last byte is not above `last`.
    pub(super) fn ends_by(self, last: u64) -> bool {
        self.at.checked_add(self.bytes - 1).is_some_and(|end| end <= last)
    }

    /// Whether `other` is completely inside.
    pub(super) fn covers(self, other: Self) -> bool {
        let offset = other.at.wrapping_sub(self.at);
        other.at >= self.at && offset < self.bytes && other.bytes <= self.bytes - offset
    }

    /// Whether it lies within one entry of a level, without filling it.
    pub(super) fn is_within_an_entry(self, level: u32) -> bool {
        let bits = entry_bits(level);
        let last = self.at + (self.bytes - 1);
        self.at >> bits == last >> bits && self.bytes < 1 << bits
    }

    /// The part in the first entry that it touches.
    pub(super) fn in_first_entry(self, level: u32) -> Self {
        let entry_bytes = 1 << entry_bits(level);
        let left = entry_bytes - self.at % entry_bytes;
        Self { bytes: self.bytes.min(left), ..self }
    }

    /// Number of whole entries at its beginning.
    pub(super) fn whole_entries(self, level: u32) -> u64 {
        match self.at % (1 << entry_bits(level)) == 0 {
            true => self.bytes >> entry_bits(level),
            false => 0,
        }
    }

    /// The rest after `bytes`.
    pub(super) fn after(self, bytes: u64) -> Self {
        // Wraps only if nothing is left; then the address does not matter.
        Self { at: self.at.wrapping_add(bytes), bytes: self.bytes - bytes }
    }
}

impl Piece {
    /// The first `bytes` of it.
    pub(super) fn first(self, bytes: u64) -> Self {
        Self { span: Span { bytes, ..self.span }, ..self }
    }

    /// The rest after the first `bytes`.
    pub(super) fn after(self, bytes: u64) -> Self {
        Self { span: self.span.after(bytes), memory: self.memory + bytes }
    }

    /// The page sizes of the mask that the alignment of its addresses allows.
    pub(super) fn sizes(self, mask: u64) -> u64 {
        let apart = self.span.at ^ self.memory;
        // All bits up to the lowest in which the two addresses differ: sizes to which both can be aligned.
        mask & (apart ^ apart.wrapping_sub(1))
    }

    /// Log2 of the largest page size in the mask that fits its alignment and its size.
    pub(super) fn largest_page_bits(self, mask: u64) -> u32 {
        let aligned = (self.span.at | self.memory).trailing_zeros();
        let bits = aligned.min(self.span.bytes.ilog2());
        (mask & (u64::MAX >> (63 - bits))).ilog2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_may_end_where_addresses_do() {
        let all_but_a_page = Span { at: FRAME_BYTES, bytes: u64::MAX - FRAME_BYTES + 1 };
        assert!(all_but_a_page.ends_by(u64::MAX) && !all_but_a_page.ends_by(u64::MAX - 1));
        let last = Span { at: u64::MAX - FRAME_BYTES + 1, bytes: FRAME_BYTES };
        assert!(all_but_a_page.covers(last) && !last.covers(all_but_a_page));
        assert!(!(Span { at: 0, bytes: FRAME_BYTES }).covers(last));
        assert_eq!(last.in_first_entry(5), last);
        assert_eq!(last.after(FRAME_BYTES), Span { at: 0, bytes: 0 });
    }

    #[test]
    fn pages_are_as_large_as_both_addresses_and_the_size_allow() {
        let sizes = 1 << 12 | 1 << 21 | 1 << 30;
        let check = |at: u64, memory: u64, bytes: u64, expected: u32| {
            let piece = Piece { span: Span { at, bytes }, memory };
            assert_eq!(piece.largest_page_bits(sizes), expected, "{piece:x?}");
        };
        check(0, 0, 1 << 30, 30);
        check(0, 0, (1 << 30) - 4096, 21);
        check(0, 1 << 21, 1 << 30, 21);
        check(1 << 21, 0x1000, 1 << 30, 12);
        let piece = |at, memory| Piece { span: Span { at, bytes: 4096 }, memory };
        assert_eq!(piece(0x1000, 1 << 21 | 0x1000).sizes(sizes), 1 << 12 | 1 << 21);
        assert_eq!(piece(0x5000, 0x5000).sizes(sizes), sizes);
        assert_eq!(piece(0x5000, 0x4000).sizes(sizes), 1 << 12);
    }
}
