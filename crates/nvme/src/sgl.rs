//! Where a command's data is, by scatter-gather list (Base, 4.1.2): pieces of any length at any place, where a controller takes them.

use crate::prp::Piece;
use dma::BusAddress;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// What a descriptor is, in the upper half of its last byte.
pub(crate) const DATA_BLOCK: u8 = 0x0;
/// A segment of descriptors that has no further segment behind it.
pub(crate) const LAST_SEGMENT: u8 = 0x3;

/// Why data can't be told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SglError {
    /// Nothing is to be transferred.
    #[error("a buffer without bytes")]
    Empty,
    /// A piece has more bytes than a descriptor can say.
    #[error("a piece of {bytes} bytes; expected {} at most", u32::MAX)]
    Long {
        /// Of the piece.
        bytes: u64,
    },
    /// There is no room for all descriptors.
    #[error("a list of {descriptors} descriptors; there is room for {room}")]
    Room {
        /// One for each piece.
        descriptors: usize,
        /// Descriptors that fit.
        room: usize,
    },
}

/// A descriptor's two words.
fn descriptor(at: BusAddress, bytes: u64, kind: u8) -> [u64; 2] {
    [at.0, bytes | u64::from(kind) << 60]
}

/// The descriptor of a command. With more than one piece it names a segment at `list_at`, whose descriptors go into `list`; how many
/// there are is told too.
///
/// # Errors
/// [`SglError`]; then nothing of `list` counts.
pub fn tell(
    pieces: &[Piece],
    list_at: BusAddress,
    list: &mut [[u64; 2]],
) -> Result<([u64; 2], usize), SglError> {
    if pieces.is_empty() || pieces.iter().any(|piece| piece.bytes == 0) {
        return Err(SglError::Empty);
    }
    if let Some(long) = pieces.iter().find(|piece| piece.bytes > u32::MAX.into()) {
        return Err(SglError::Long { bytes: long.bytes });
    }
    if let [piece] = pieces {
        return Ok((descriptor(piece.at, piece.bytes, DATA_BLOCK), 0));
    }
    if pieces.len() > list.len() {
        return Err(SglError::Room { descriptors: pieces.len(), room: list.len() });
    }
    for (into, piece) in list.iter_mut().zip(pieces) {
        *into = descriptor(piece.at, piece.bytes, DATA_BLOCK);
    }
    let bytes = pieces.len() as u64 * DESCRIPTOR_BYTES;
    Ok((descriptor(list_at, bytes, LAST_SEGMENT), pieces.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn one_piece_is_in_the_command() {
        let piece = Piece { at: BusAddress(0x1234), bytes: 77 };
        assert_eq!(tell(&[piece], BusAddress(0), &mut []), Ok(([0x1234, 77], 0)));
        let room = SglError::Room { descriptors: 2, room: 1 };
        assert_eq!(tell(&[piece; 2], BusAddress(0), &mut [[0; 2]]), Err(room));
        let long = Piece { bytes: 1 << 32, ..piece };
        assert_eq!(tell(&[long], BusAddress(0), &mut []), Err(SglError::Long { bytes: 1 << 32 }));
    }

    proptest! {
        #[test]
        fn what_is_told_is_found(pieces in prop::collection::vec((0_u64..1 << 48, 1_u64..1 << 20), 1..40)) {
            let pieces: Vec<Piece> =
                pieces.into_iter().map(|(at, bytes)| Piece { at: BusAddress(at), bytes }).collect();
            let (list_at, mut list) = (BusAddress(1 << 50), [[0; 2]; 40]);
            let (descriptor, number) = tell(&pieces, list_at, &mut list).unwrap();
            let words = list[..number].iter().flatten().copied();
            let memory: BTreeMap<u64, u64> = (list_at.0..).step_by(8).zip(words).collect();
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            let found = walk::sgl(descriptor, bytes, |at| memory.get(&at.0).copied()).unwrap();
            prop_assert_eq!(found, pieces);
        }
    }
}
