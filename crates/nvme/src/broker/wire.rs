//! What client and broker send each other: two messages at the start, then requests and results in memory.

use super::area::{REQUEST_WORDS, RESULT_WORDS};
use crate::chunk::{ChunkError, Operation};
use crate::spec::status::Status;

/// Begins each message: protocol and version.
const MAGIC: u64 = u64::from_le_bytes(*b"iotoll\x00\x03");
/// Bytes of either message.
pub(super) const MESSAGE_BYTES: usize = 64;

/// A client's first and only message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    /// Requests at once; 0 to be told of the disk only.
    pub(super) slots: u16,
}

/// The broker's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct About {
    /// Blocks of the share.
    pub(super) blocks: u64,
    pub(super) block_shift: u8,
    pub(super) is_writable: bool,
    /// Requests at once; 0 if the client is served no queue.
    pub(super) slots: u16,
    pub(super) request_bytes: u64,
    /// Another one for each start of a broker.
    pub(super) instance: u64,
}

fn message(words: [u64; MESSAGE_BYTES / 8]) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    for (into, word) in bytes.chunks_exact_mut(8).zip(words) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The words of a message of this protocol.
fn words(bytes: &[u8]) -> Option<[u64; MESSAGE_BYTES / 8]> {
    let mut words = [0; MESSAGE_BYTES / 8];
    if bytes.len() != MESSAGE_BYTES {
        return None;
    }
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(from.try_into().ok()?);
    }
    (words[0] == MAGIC).then_some(words)
}

impl Hello {
    pub(super) fn encode(self) -> [u8; MESSAGE_BYTES] {
        message([MAGIC, self.slots.into(), 0, 0, 0, 0, 0, 0])
    }

    /// `None` for bytes that are no such message.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [_, slots, ..] = words(bytes)?;
        Some(Self { slots: u16::try_from(slots).ok()? })
    }
}

impl About {
    pub(super) fn encode(self) -> [u8; MESSAGE_BYTES] {
        let is_writable = self.is_writable.into();
        let Self { blocks, block_shift, slots, request_bytes, instance, .. } = self;
        message([MAGIC, blocks, block_shift.into(), is_writable, slots.into(), request_bytes, instance, 0])
    }

    /// `None` for bytes that are no such message, or a disk that can't be.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [_, blocks, shift, is_writable, slots, request_bytes, instance, _] = words(bytes)?;
        let block_shift = u8::try_from(shift).ok().filter(|shift| (9..=16).contains(shift))?;
        let slots = u16::try_from(slots).ok()?;
        blocks
            .checked_shl(block_shift.into())
            .filter(|bytes| bytes >> block_shift == blocks && blocks > 0)?;
        let is_possible = slots == 0
            || (request_bytes >> block_shift > 0
                && request_bytes <= 1 << 30
                && request_bytes.trailing_zeros() >= 3);
        let is_writable = is_writable != 0;
        is_possible.then_some(Self { blocks, block_shift, is_writable, slots, request_bytes, instance })
    }
}

/// A request, as its words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) slot: u16,
    pub(super) operation: Operation,
}

const READ: u64 = 1;
const WRITE: u64 = 2;
const WRITE_ZEROES: u64 = 3;
const DEALLOCATE: u64 = 4;
const FLUSH: u64 = 5;
const CLOSE: u64 = 6;
/// In the last word: the client has fetched all results until then that tell of losses.
const TOLD: u64 = 1;

/// What a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Request(Request),
    /// It has no further requests, and waits for the end of its session.
    Close,
}

impl Said {
    /// With whether the client knows of all losses that results have told until now.
    pub(super) fn encode(self, is_told: bool) -> [u64; REQUEST_WORDS] {
        let [slot_and_kind, first, blocks] = match self {
            Self::Request(request) => request.encode(),
            Self::Close => [CLOSE << 16, 0, 0],
        };
        [slot_and_kind, first, blocks, if is_told { TOLD } else { 0 }]
    }

    /// `None` for words that say nothing.
    pub(super) fn decode([slot_and_kind, first, blocks, more]: [u64; REQUEST_WORDS]) -> Option<(Self, bool)> {
        let said = match slot_and_kind >> 16 {
            CLOSE => Self::Close,
            _ => Self::Request(Request::decode([slot_and_kind, first, blocks])?),
        };
        Some((said, more & TOLD != 0))
    }
}

impl Request {
    fn encode(self) -> [u64; REQUEST_WORDS - 1] {
        let (kind, first, blocks) = match self.operation {
            Operation::Read { first, blocks } => (READ, first, blocks),
            Operation::Write { first, blocks } => (WRITE, first, blocks),
            Operation::WriteZeroes { first, blocks } => (WRITE_ZEROES, first, blocks),
            Operation::Deallocate { first, blocks } => (DEALLOCATE, first, blocks),
            Operation::Flush => (FLUSH, 0, 0),
        };
        [u64::from(self.slot) | kind << 16, first, blocks]
    }

    /// `None` for words that are no request.
    fn decode([slot_and_kind, first, blocks]: [u64; REQUEST_WORDS - 1]) -> Option<Self> {
        let operation = match slot_and_kind >> 16 {
            READ => Operation::Read { first, blocks },
            WRITE => Operation::Write { first, blocks },
            WRITE_ZEROES => Operation::WriteZeroes { first, blocks },
            DEALLOCATE => Operation::Deallocate { first, blocks },
            FLUSH => Operation::Flush,
            _ => return None,
        };
        Some(Self { slot: slot_and_kind as u16, operation })
    }
}

/// How a request has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    /// The controller's status.
    Status(Status),
    /// The request is not allowed, or too long.
    Refused,
    /// The disk is lost.
    Lost,
    /// The flush has ended, but writes before it may be lost.
    WritesLost,
}

const STATUS: u64 = 1 << 32;
const REFUSED: u64 = 2 << 32;
const LOST: u64 = 3 << 32;
const WRITES_LOST: u64 = 4 << 32;

impl Outcome {
    pub(super) fn of(error: Option<&ChunkError>) -> Self {
        match error {
            None => Self::Success,
            Some(ChunkError::Status(status)) => Self::Status(*status),
            Some(
                ChunkError::OutOfRange { .. } | ChunkError::PartialBlock { .. } | ChunkError::TooLong { .. },
            ) => Self::Refused,
            Some(ChunkError::PathLost) => Self::WritesLost,
            Some(_) => Self::Lost,
        }
    }

    pub(super) fn result(self) -> Result<(), ChunkError> {
        match self {
            Self::Success => Ok(()),
            Self::Status(status) => Err(ChunkError::Status(status)),
            Self::Refused => Err(ChunkError::Refused),
            Self::WritesLost => Err(ChunkError::PathLost),
            Self::Lost => Err(ChunkError::Abandoned { why: "the broker has lost the controller".to_owned() }),
        }
    }

    pub(super) fn encode(self, slot: u16) -> [u64; RESULT_WORDS] {
        let outcome = match self {
            Self::Success => 0,
            Self::Status(status) => STATUS | u64::from(status.0),
            Self::Refused => REFUSED,
            Self::Lost => LOST,
            Self::WritesLost => WRITES_LOST,
        };
        [slot.into(), outcome]
    }

    /// The slot and the outcome; `None` for words that are none.
    pub(super) fn decode([slot, outcome]: [u64; RESULT_WORDS]) -> Option<(u16, Self)> {
        let outcome = match outcome {
            0 => Self::Success,
            REFUSED => Self::Refused,
            LOST => Self::Lost,
            WRITES_LOST => Self::WritesLost,
            status if status >> 16 == STATUS >> 16 => Self::Status(Status(status as u16)),
            _ => return None,
        };
        Some((u16::try_from(slot).ok()?, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_words_are_decoded_or_refused(words in any::<[u64; 4]>(), kind in 0_u64..8, slot in any::<u16>()) {
            let _ = Outcome::decode([words[0], words[1]]);
            if let Some((said, is_told)) = Said::decode(words) {
                prop_assert_eq!(Said::decode(said.encode(is_told)), Some((said, is_told)));
            }
            let known = Said::decode([kind << 16 | u64::from(slot), words[1], words[2], words[3]]);
            let known_slot = known.and_then(|(said, _)| match said {
                Said::Request(request) => Some(request.slot),
                Said::Close => None,
            });
            prop_assert_eq!(known_slot, (1..=5).contains(&kind).then_some(slot));
            prop_assert_eq!(known.is_some(), (1..=6).contains(&kind));
            let status = Outcome::Status(Status(slot));
            for outcome in [Outcome::Success, status, Outcome::Refused, Outcome::Lost, Outcome::WritesLost] {
                prop_assert_eq!(Outcome::decode(outcome.encode(slot)), Some((slot, outcome)));
            }
        }

        #[test]
        fn messages_come_back(blocks in 1_u64..1 << 40, shift in 9_u8..=16, slots in any::<u16>(), pages in 1_u64..64, instance: u64, is_writable: bool) {
            let request_bytes = pages << 16;
            let about = About { blocks, block_shift: shift, is_writable, slots, request_bytes, instance };
            prop_assert_eq!(About::decode(&about.encode()), Some(about));
            prop_assert_eq!(Hello::decode(&Hello { slots }.encode()), Some(Hello { slots }));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), words in any::<[u64; 7]>()) {
            prop_assert_eq!((Hello::decode(&bytes), About::decode(&bytes)), (None, None));
            let [a, b, c, d, e, f, g] = words;
            let bytes = message([MAGIC, a, b, c, d, e, f, g]);
            if let Some(about) = About::decode(&bytes) {
                prop_assert!(about.blocks > 0 && (9..=16).contains(&about.block_shift));
            }
            let _ = Hello::decode(&bytes);
        }
    }

    #[test]
    fn impossible_disks_are_refused() {
        let about = About {
            blocks: 8,
            block_shift: 12,
            is_writable: true,
            slots: 4,
            request_bytes: 4096,
            instance: 1,
        };
        assert_eq!(About::decode(&about.encode()), Some(about));
        for wrong in [
            About { blocks: 0, ..about },
            About { blocks: 1 << 53, ..about },
            About { block_shift: 8, ..about },
            About { block_shift: 17, ..about },
            About { request_bytes: 2048, ..about },
            About { request_bytes: 4100, ..about },
            About { request_bytes: 1 << 31, ..about },
        ] {
            assert_eq!(About::decode(&wrong.encode()), None, "{wrong:?}");
        }
        assert!(About::decode(&About { slots: 0, request_bytes: 0, ..about }.encode()).is_some());
    }
}
