//! A cache line that records for each byte which write stored it.

/// Bytes of a cache line of x86 processors.
pub const LINE_BYTES: u64 = 64;
pub(super) const LINE: usize = LINE_BYTES as usize;

/// A write, by its number in the order of the program; 0 is what memory held before the first.
pub(super) type Version = u32;

/// A copy of a line in memory, cache or a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) bytes: [u8; LINE],
    pub(super) versions: [Version; LINE],
}

impl Line {
    pub(super) const BLANK: Self = Self { bytes: [0; LINE], versions: [0; LINE] };

    /// Stores bytes of a write at `offset`.
    pub(super) fn put(&mut self, offset: usize, bytes: &[u8], version: Version) {
        let places = self.bytes.iter_mut().zip(&mut self.versions).skip(offset);
        for ((byte, of), new) in places.zip(bytes) {
            (*byte, *of) = (*new, version);
        }
    }
}

/// A part of an access that lies in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where the line begins.
    pub(super) line: u64,
    /// The first byte in it.
    pub(super) offset: usize,
    /// Where the piece is in the access.
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// The pieces of an access, in order. What lies beyond the address space wraps around, as buses do.
pub(super) fn pieces(address: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let here = address.wrapping_add(at as u64);
        let offset = (here % LINE_BYTES) as usize;
        let piece = Piece { line: here - offset as u64, offset, at, bytes: (LINE - offset).min(bytes - at) };
        at += piece.bytes;
        (piece.bytes > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_cut_at_lines() {
        let cut = |address, bytes| {
            pieces(address, bytes)
                .map(|piece| (piece.line, piece.offset, piece.at, piece.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(cut(60, 70), [(0, 60, 0, 4), (64, 0, 4, 64), (128, 0, 68, 2)]);
        assert_eq!(cut(64, 64), [(64, 0, 0, 64)]);
        assert!(cut(1, 0).is_empty());
        assert_eq!(cut(u64::MAX, 2), [(u64::MAX - 63, 63, 0, 1), (0, 0, 1, 1)]);
    }
}
