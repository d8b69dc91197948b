//! Physical region pages (PRP; Base, 4.1.1): a command's data as the address of its first byte and of each further
//! page.

use dma::BusAddress;

/// A contiguous piece of a buffer, by its bus address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte.
    pub at: BusAddress,
    /// Its length.
    pub bytes: u64,
}

/// Why data can't be described by PRPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrpError {
    /// The data has no bytes.
    #[error("a buffer of 0 bytes; expected at least 1")]
    Empty,
    /// The first address is not a multiple of 4.
    #[error("a buffer that begins at {0}; expected a multiple of 4")]
    Unaligned(BusAddress),
    /// A piece in the middle does not begin and end at page boundaries.
    #[error(
        "piece {piece} of a buffer begins or ends within a page of {page_bytes} bytes; only the first may begin and the last may end so"
    )]
    Gap {
        /// Index of the piece.
        piece: usize,
        /// The controller's memory page size.
        page_bytes: u64,
    },
    /// The PRP list is too small.
    #[error("a PRP list of {entries} entries; expected at most {available}")]
    ListTooLong {
        /// Entries needed, including pointers to further list pages.
        entries: usize,
        /// Entries available.
        available: usize,
    },
    /// The end address overflows 64 bits.
    #[error("a buffer that ends beyond the last 64-bit address")]
    Overflow,
}

/// Bytes of a PRP entry.
pub const ENTRY_BYTES: u64 = 8;

/// PRP1 and PRP2 of data that needs no list: one valid piece on at most two pages. `None` otherwise.
#[inline]
pub fn without_list(piece: Piece, page_bytes: u64) -> Option<[u64; 2]> {
    let Piece { at: BusAddress(at), bytes } = piece;
    let (within, last) = (at & (page_bytes - 1), bytes.wrapping_sub(1));
    // A whole page or the beginning of one, as most are. Of 0 bytes the last is beyond every page.
    if within == 0 && last < page_bytes {
        return Some([at, 0]);
    }
    at.checked_add(last)?;
    if bytes == 0 || at & 3 != 0 || within + last >= 2 * page_bytes {
        return None;
    }
    Some([at, if within + last < page_bytes { 0 } else { at - within + page_bytes }])
}

/// Encodes data as PRP1 and PRP2. Further entries go into `list`, which lies at `list_at`, the beginning of a page.
/// Also returns how many entries of `list` were used.
///
/// `page_bytes` is the controller's memory page size, a power of two.
///
/// # Errors
/// [`PrpError`]; then the content of `list` is undefined.
pub fn encode(
    pieces: &[Piece],
    page_bytes: u64,
    list_at: BusAddress,
    list: &mut [u64],
) -> Result<([u64; 2], usize), PrpError> {
    let first = pieces.first().ok_or(PrpError::Empty)?;
    if first.at.0 % 4 != 0 {
        return Err(PrpError::Unaligned(first.at));
    }
    check(pieces, page_bytes)?;
    let pages = pieces.iter().flat_map(|piece| {
        let begin = piece.at.0 - piece.at.0 % page_bytes;
        (begin..=piece.at.0 + (piece.bytes - 1)).step_by(page_bytes as usize)
    });
    let number =
        pieces.iter().map(|piece| (piece.at.0 % page_bytes + piece.bytes).div_ceil(page_bytes)).sum::<u64>();
    let mut further = pages.skip(1);
    match number {
        1 => return Ok(([first.at.0, 0], 0)),
        2 => return Ok(([first.at.0, further.next().unwrap_or_default()], 0)),
        _ => {}
    }
    let entries = list_entries(number as usize - 1, page_bytes);
    if entries > list.len() {
        return Err(PrpError::ListTooLong { entries, available: list.len() });
    }
    let per_page = (page_bytes / ENTRY_BYTES) as usize;
    for (place, entry) in list[..entries].iter_mut().enumerate() {
        // The last entry of a full list page points to the next list page.
        let is_pointer = place % per_page == per_page - 1 && place + 1 < entries;
        *entry = if is_pointer {
            list_at.0 + (place as u64 + 1) * ENTRY_BYTES
        } else {
            further.next().unwrap_or_default()
        };
    }
    Ok(([first.at.0, list_at.0], entries))
}

/// The number of entries of a PRP list for `pages` data pages, including a pointer from each list page to the next.
pub fn list_entries(pages: usize, page_bytes: u64) -> usize {
    let per_page = (page_bytes / ENTRY_BYTES) as usize;
    // Each list page but the last gives one entry to its pointer.
    pages + pages.saturating_sub(2) / (per_page - 1)
}

/// Checks that all pieces but the first begin at a page boundary, and all but the last end at one.
fn check(pieces: &[Piece], page_bytes: u64) -> Result<(), PrpError> {
    for (place, piece) in pieces.iter().enumerate() {
        let bytes_less_one = piece.bytes.checked_sub(1).ok_or(PrpError::Empty)?;
        let last = piece.at.0.checked_add(bytes_less_one).ok_or(PrpError::Overflow)?;
        let begins = place == 0 || piece.at.0 % page_bytes == 0;
        let ends = place + 1 == pieces.len() || last % page_bytes == page_bytes - 1;
        if !begins || !ends {
            return Err(PrpError::Gap { piece: place, page_bytes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const PAGE: u64 = 4096;

    /// What a controller makes of it: pieces that follow each other joined.
    fn told(pieces: &[Piece], page_bytes: u64) -> Result<Vec<Piece>, PrpError> {
        let at = BusAddress(1 << 50);
        let mut list = vec![u64::MAX; 4096];
        let (entries, number) = encode(pieces, page_bytes, at, &mut list)?;
        let memory: BTreeMap<u64, u64> = (at.0..).step_by(8).zip(list[..number].iter().copied()).collect();
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        let pages = walk::prp(entries, bytes, page_bytes, |at| memory.get(&at.0).copied()).unwrap();
        Ok(joined(&pages))
    }

    fn joined(pieces: &[Piece]) -> Vec<Piece> {
        let mut all: Vec<Piece> = Vec::new();
        for piece in pieces {
            match all.last_mut() {
                Some(last) if last.at.0 + last.bytes == piece.at.0 => last.bytes += piece.bytes,
                _ => all.push(*piece),
            }
        }
        all
    }

    fn piece(at: u64, bytes: u64) -> Piece {
        Piece { at: BusAddress(at), bytes }
    }

    #[test]
    fn up_to_two_pages_are_in_the_command() {
        let check = |pieces: &[Piece], expected: [u64; 2]| {
            assert_eq!(encode(pieces, PAGE, BusAddress(0), &mut []), Ok((expected, 0)));
        };
        check(&[piece(0x5000, 512)], [0x5000, 0]);
        check(&[piece(0x5e00, 512)], [0x5e00, 0]);
        check(&[piece(0x5e00, 516)], [0x5e00, 0x6000]);
        check(&[piece(0x5000, 8192)], [0x5000, 0x6000]);
        check(&[piece(0x5800, 2048), piece(0x9000, 4)], [0x5800, 0x9000]);
        // Up to the last byte of all addresses.
        check(&[piece(u64::MAX - 8191, 8192)], [u64::MAX - 8191, u64::MAX - 4095]);
    }

    #[test]
    fn the_short_way_ends_at_two_pages() {
        let near = |limits: [u64; 3]| {
            limits.into_iter().flat_map(|limit| {
                [limit.wrapping_sub(1), limit, limit.wrapping_add(1), limit.wrapping_add(4)]
            })
        };
        for (at, bytes) in near([0, PAGE, 0u64.wrapping_sub(PAGE)])
            .flat_map(|at| near([0, PAGE, 2 * PAGE]).map(move |bytes| (at, bytes)))
        {
            let expected = encode(&[piece(at, bytes)], PAGE, BusAddress(0), &mut []).ok();
            assert_eq!(
                without_list(piece(at, bytes), PAGE),
                expected.map(|(entries, _)| entries),
                "{bytes} from {at}"
            );
        }
    }

    #[test]
    fn a_list_goes_on_in_its_next_page() {
        let list_at = BusAddress(0x10_0000);
        for (pages, entries, pointers) in
            [(3, 2, 0), (513, 512, 0), (514, 514, 1), (1024, 1024, 1), (1025, 1026, 2)]
        {
            let mut list = vec![0; 2048];
            let buffer = [piece(0x4000_0000, pages * PAGE)];
            let (command, number) = encode(&buffer, PAGE, list_at, &mut list).unwrap();
            assert_eq!((command, number), ([0x4000_0000, list_at.0], entries), "{pages}");
            let pointing = list[..number].iter().filter(|entry| **entry < 0x4000_0000).count();
            assert_eq!(pointing, pointers);
            assert_eq!(
                encode(&buffer, PAGE, list_at, &mut list[..entries - 1]).unwrap_err(),
                PrpError::ListTooLong { entries, available: entries - 1 }
            );
        }
    }

    #[test]
    fn memory_with_gaps_is_refused() {
        let check = |pieces: &[Piece], expected: PrpError| {
            assert_eq!(encode(pieces, PAGE, BusAddress(0), &mut [0; 8]), Err(expected));
        };
        check(&[], PrpError::Empty);
        check(&[piece(0x1000, 0)], PrpError::Empty);
        check(&[piece(0x1002, 8)], PrpError::Unaligned(BusAddress(0x1002)));
        check(&[piece(0x1000, 512), piece(0x2000, 512)], PrpError::Gap { piece: 0, page_bytes: PAGE });
        check(&[piece(0x1000, 4096), piece(0x2200, 512)], PrpError::Gap { piece: 1, page_bytes: PAGE });
        check(&[piece(u64::MAX - 3, 8)], PrpError::Overflow);
        check(&[piece(u64::MAX - 3, 5)], PrpError::Overflow);
    }

    fn buffers() -> impl Strategy<Value = (Vec<Piece>, u64)> {
        let pages = prop::collection::vec((0_u64..1 << 20, 1_u64..700), 1..6);
        (pages, 0_u64..1024, 1_u64..=4096, 0_u32..3).prop_map(|(runs, offset, last, shift)| {
            let page_bytes = PAGE << shift;
            let mut pieces: Vec<Piece> =
                runs.iter().map(|(page, pages)| piece(page * page_bytes, pages * page_bytes)).collect();
            let offset = offset * 4 % page_bytes;
            pieces[0].at.0 += offset;
            pieces[0].bytes -= offset;
            let end = pieces.last_mut().unwrap();
            // One page that begins within another may be left with nothing.
            end.bytes = (end.bytes + last.min(page_bytes).min(end.bytes)).saturating_sub(page_bytes);
            (pieces, page_bytes)
        })
    }

    proptest! {
        /// A controller that goes by the specification finds the same bytes in the same order.
        #[test]
        fn encoded_pieces_are_found((pieces, page_bytes) in buffers()) {
            prop_assume!(pieces.iter().all(|piece| piece.bytes > 0 && piece.bytes < 1 << 40));
            prop_assert_eq!(told(&pieces, page_bytes).unwrap(), joined(&pieces));
        }

        /// The short way for most says what the long one does.
        #[test]
        fn short_buffers_are_encoded_alike(at in prop_oneof![any::<u64>(), 0_u64..1 << 14, u64::MAX - (1 << 14)..=u64::MAX], bytes in prop_oneof![0_u64..3 * PAGE, Just(PAGE), any::<u64>()], align in any::<bool>(), shift in 0_u32..3) {
            let at = if align { at & !(PAGE - 1) } else { at };
            let (piece, page_bytes) = (piece(at, bytes), PAGE << shift);
            let told = encode(&[piece], page_bytes, BusAddress(0), &mut []).ok().map(|(entries, _)| entries);
            prop_assert_eq!(without_list(piece, page_bytes), told);
        }

        /// Whatever pieces there are, they are told or refused.
        #[test]
        fn any_pieces_are_encoded_or_refused(pieces in prop::collection::vec((any::<u64>(), 0_u64..1 << 22), 0..5)) {
            let pieces: Vec<Piece> = pieces.into_iter().map(|(at, bytes)| piece(at, bytes)).collect();
            let _ = encode(&pieces, PAGE, BusAddress(0), &mut [0; 64]);
        }
    }
}
