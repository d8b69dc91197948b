//! Requests of a queue's own, which have no tag: flushes, and zeroes for blocks that are freed.

use crate::flush_losses::FlushLosses;
use nvme::chunk::{Chunk, ChunkError, Request};
use std::collections::BTreeMap;

/// What such a request does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnOperation {
    /// Empties the disk's volatile write cache.
    Flush,
    /// Zeroes blocks of the disk, at most as many as one request can.
    WriteZeroes { first: u64, blocks: u64 },
}

impl OwnOperation {
    /// Whether the library's caller has asked for it.
    pub(crate) fn is_a_caller_s(self) -> bool {
        matches!(self, Self::Flush)
    }

    /// What an error's text begins with.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flush => "the flush",
            Self::WriteZeroes { .. } => "zeroing blocks",
        }
    }
}

/// A request of the queue's own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnRequest {
    pub(crate) number: u64,
    operation: OwnOperation,
}

impl OwnRequest {
    pub(crate) fn begin(self, disk: &mut Chunk) -> Result<Request, ChunkError> {
        match self.operation {
            OwnOperation::Flush => disk.begin_flush(),
            OwnOperation::WriteZeroes { first, blocks } => disk.begin_write_zeroes(first, blocks),
        }
    }
}

/// Those for which threads wait. Each has a number of its own, so that no thread takes the result of another's.
#[derive(Debug, Default)]
pub(crate) struct OwnRequests {
    next: u64,
    /// `None` until the request has ended.
    results: BTreeMap<u64, Option<Result<(), ChunkError>>>,
    losses: FlushLosses,
}

impl OwnRequests {
    pub(crate) fn add(&mut self, operation: OwnOperation) -> OwnRequest {
        let number = self.next;
        self.next += 1;
        self.results.insert(number, None);
        OwnRequest { number, operation }
    }

    /// Notes that a request has ended.
    pub(crate) fn end(&mut self, number: u64, result: Result<(), ChunkError>) {
        if let Err(ChunkError::PathLost) = result {
            self.losses.note();
        }
        self.results.insert(number, Some(result));
    }

    /// Whether each result was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    pub(crate) fn has_ended(&self, number: u64) -> bool {
        self.results.get(&number).is_some_and(Option::is_some)
    }

    /// Takes a request's result; `None` if it has not ended. A flush fails once for each thread whose writes may be lost, whichever thread's flush was told
    /// so by the disk.
    pub(crate) fn take(&mut self, number: u64, operation: OwnOperation) -> Option<Result<(), ChunkError>> {
        let result = self.results.get_mut(&number)?.take()?;
        self.results.remove(&number);
        let is_flush = matches!(operation, OwnOperation::Flush);
        Some(match result {
            Ok(()) | Err(ChunkError::PathLost) if is_flush && self.losses.tell() => Err(ChunkError::PathLost),
            result => result,
        })
    }
}
