//! Scatter-gather lists (SGL; Base, 4.1.2): a command's data as pieces of any length and alignment.

use crate::prp::Piece;
use dma::BusAddress;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Descriptor types, in the upper half of a descriptor's last byte: a data block,
pub(crate) const DATA_BLOCK: u8 = 0x0;
/// and the last segment of descriptors.
pub(crate) const LAST_SEGMENT: u8 = 0x3;

/// Why data can't be described by an SGL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SglError {
    /// The data has no bytes.
    #[error("a buffer of 0 bytes; expected at least 1")]
    Empty,
    /// A piece is longer than a descriptor's 32-bit length.
    #[error("a piece of {bytes} bytes; expected {} at most", u32::MAX)]
    TooLong {
        /// Length of the piece.
        bytes: u64,
    },
    /// The list is too small.
    #[error("an SGL of {descriptors} descriptors; expected at most {available}")]
    ListTooLong {
        /// Descriptors needed, one per piece.
        descriptors: usize,
        /// Descriptors available.
        available: usize,
    },
}

/// The two words of a descriptor.
fn descriptor(at: BusAddress, bytes: u64, kind: u8) -> [u64; 2] {
    [at.0, bytes | u64::from(kind) << 60]
}

/// Encodes data as the descriptor in the command. More than one piece needs a segment of descriptors: `list`, at
/// `list_at`. Also returns how many descriptors of `list` were used.
///
/// # Errors
/// [`SglError`]; then the content of `list` is undefined.
pub fn encode(
    pieces: &[Piece],
    list_at: BusAddress,
    list: &mut [[u64; 2]],
) -> Result<([u64; 2], usize), SglError> {
    if pieces.is_empty() || pieces.iter().any(|piece| piece.bytes == 0) {
        return Err(SglError::Empty);
    }
    if let Some(long) = pieces.iter().find(|piece| piece.bytes > u32::MAX.into()) {
        return Err(SglError::TooLong { bytes: long.bytes });
    }
    if let [piece] = pieces {
        return Ok((descriptor(piece.at, piece.bytes, DATA_BLOCK), 0));
    }
    if pieces.len() > list.len() {
        return Err(SglError::ListTooLong { descriptors: pieces.len(), available: list.len() });
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
        assert_eq!(encode(&[piece], BusAddress(0), &mut []), Ok(([0x1234, 77], 0)));
        let available = SglError::ListTooLong { descriptors: 2, available: 1 };
        assert_eq!(encode(&[piece; 2], BusAddress(0), &mut [[0; 2]]), Err(available));
        let long = Piece { bytes: 1 << 32, ..piece };
        assert_eq!(encode(&[long], BusAddress(0), &mut []), Err(SglError::TooLong { bytes: 1 << 32 }));
    }

    proptest! {
        #[test]
        fn encoded_pieces_are_found(pieces in prop::collection::vec((0_u64..1 << 48, 1_u64..1 << 20), 1..40)) {
            let pieces: Vec<Piece> =
                pieces.into_iter().map(|(at, bytes)| Piece { at: BusAddress(at), bytes }).collect();
            let (list_at, mut list) = (BusAddress(1 << 50), [[0; 2]; 40]);
            let (descriptor, number) = encode(&pieces, list_at, &mut list).unwrap();
            let words = list[..number].iter().flatten().copied();
            let memory: BTreeMap<u64, u64> = (list_at.0..).step_by(8).zip(words).collect();
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            let found = walk::sgl(descriptor, bytes, |at| memory.get(&at.0).copied()).unwrap();
            prop_assert_eq!(found, pieces);
        }
    }
}
