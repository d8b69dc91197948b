//! The controller's side of [`prp`](crate::prp) and [`sgl`](crate::sgl): finds a command's data. Written from the
//! specification, it shares only memory with those, so that tests compare two independent readings.

use crate::prp::Piece;
use crate::sgl::{DATA_BLOCK, LAST_SEGMENT};
use crate::spec::status::Status;
use dma::BusAddress;

/// Descriptor type: a segment that another segment follows.
const SEGMENT: u8 = 0x2;
/// Most descriptors followed, to stop at a list that is a loop.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// The pieces of a transfer of `bytes` by PRPs. `read` reads a list entry, or returns `None` where the controller may
/// not read.
///
/// # Errors
/// The status with which a controller completes such a command.
pub fn prp(
    entries: [u64; 2],
    bytes: u64,
    page_bytes: u64,
    mut read: impl FnMut(BusAddress) -> Option<u64>,
) -> Result<Vec<Piece>, Status> {
    if entries[0] % 4 != 0 {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    let first = bytes.min(page_bytes - entries[0] % page_bytes);
    let mut pieces = vec![Piece { at: BusAddress(entries[0]), bytes: first }];
    let mut left = bytes - first;
    if left > 0 && left <= page_bytes {
        pieces.push(page(entries[1], left, page_bytes)?);
        return Ok(pieces);
    }
    let mut at = entries[1];
    if left > 0 && at % 8 != 0 {
        return Err(Status::INVALID_PRP_OFFSET);
    }
    while left > 0 {
        let entry = read(BusAddress(at)).ok_or(Status::DATA_TRANSFER)?;
        let is_last_of_page = at % page_bytes == page_bytes - 8;
        if is_last_of_page && left > page_bytes {
            if entry % page_bytes != 0 {
                return Err(Status::INVALID_PRP_OFFSET);
            }
            at = entry;
            continue;
        }
        let taken = left.min(page_bytes);
        pieces.push(page(entry, taken, page_bytes)?);
        left -= taken;
        at += 8;
    }
    Ok(pieces)
}

/// A further page; a PRP entry other than the first must begin a page.
fn page(at: u64, bytes: u64, page_bytes: u64) -> Result<Piece, Status> {
    let is_page = at % page_bytes == 0;
    is_page.then_some(Piece { at: BusAddress(at), bytes }).ok_or(Status::INVALID_PRP_OFFSET)
}

/// The pieces of a transfer of `bytes` by the SGL descriptor in the command.
///
/// # Errors
/// As for [`prp`].
pub fn sgl(
    descriptor: [u64; 2],
    bytes: u64,
    mut read: impl FnMut(BusAddress) -> Option<u64>,
) -> Result<Vec<Piece>, Status> {
    let (mut pieces, mut left, mut seen) = (Vec::new(), bytes, 0);
    let mut segment = Some(descriptor);
    let mut is_first = true;
    while let Some(descriptor) = segment.take() {
        let [at, length, kind] = parts(descriptor);
        match kind as u8 {
            DATA_BLOCK if is_first => take(&mut pieces, &mut left, at, length),
            SEGMENT | LAST_SEGMENT => {
                let descriptors = length / 16;
                if length % 16 != 0 || descriptors == 0 {
                    return Err(Status::of(0, 0x0d));
                }
                for number in 0..descriptors {
                    seen += 1;
                    if seen > DESCRIPTORS_MAX {
                        return Err(Status::of(0, 0x0e));
                    }
                    let word = |offset: u64| BusAddress(at.wrapping_add(16 * number + offset));
                    let words = [read(word(0)), read(word(8))].map(|word| word.ok_or(Status::DATA_TRANSFER));
                    let words = [words[0]?, words[1]?];
                    let [at, length, of] = parts(words);
                    match of as u8 {
                        DATA_BLOCK => take(&mut pieces, &mut left, at, length),
                        // Only a segment's last descriptor may point to another segment.
                        SEGMENT | LAST_SEGMENT if kind as u8 == SEGMENT && number + 1 == descriptors => {
                            segment = Some(words);
                        }
                        _ => return Err(Status::of(0, 0x11)),
                    }
                }
            }
            _ => return Err(Status::of(0, 0x11)),
        }
        is_first = false;
    }
    if left > 0 { Err(Status::of(0, 0x0f)) } else { Ok(pieces) }
}

/// Address, length and descriptor type.
fn parts([at, word]: [u64; 2]) -> [u64; 3] {
    [at, word & u64::from(u32::MAX), word >> 60]
}

/// Appends a piece, cut at the end of the transfer.
fn take(pieces: &mut Vec<Piece>, left: &mut u64, at: u64, length: u64) {
    let bytes = length.min(*left);
    if bytes > 0 {
        pieces.push(Piece { at: BusAddress(at), bytes });
        *left -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offsets_within_a_list_are_refused() {
        let status = |entries, bytes| prp(entries, bytes, 4096, |_| Some(0x7100)).unwrap_err();
        assert_eq!(status([2, 0], 512), Status::INVALID_PRP_OFFSET);
        assert_eq!(status([0x1000, 0x2008], 8192), Status::INVALID_PRP_OFFSET);
        assert_eq!(status([0x1000, 0x2004], 16_384), Status::INVALID_PRP_OFFSET);
        assert_eq!(status([0x1000, 0x2000], 16_384), Status::INVALID_PRP_OFFSET);
        assert_eq!(prp([0x1000, 0x2000], 16_384, 4096, |_| None), Err(Status::DATA_TRANSFER));
    }

    #[test]
    fn lists_that_never_end_are_refused() {
        let round = [0x1000, 16 | u64::from(SEGMENT) << 60];
        let word = |at: BusAddress| Some(round[(at.0 / 8 % 2) as usize]);
        assert_eq!(sgl(round, 512, word), Err(Status::of(0, 0x0e)));
    }

    proptest! {
        /// Whatever lies in memory, the walk ends, and finds no more than was asked for.
        #[test]
        fn any_memory_is_walked(entries: [u64; 2], bytes in 1_u64..1 << 22, word: u64, mixed: u64) {
            let read = |at: BusAddress| Some((word ^ at.0.wrapping_mul(mixed)) & !0xfff);
            for found in [prp(entries, bytes, 4096, read), sgl(entries, bytes, read)].into_iter().flatten() {
                prop_assert_eq!(found.iter().map(|piece| piece.bytes).sum::<u64>(), bytes);
            }
        }
    }
}
