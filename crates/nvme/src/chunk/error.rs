//! Why a request failed.

use crate::blocks::BlockError;
use crate::controller::NvmeError;
use crate::queue_pair::QueueError;
use crate::spec::status::Status;
use dma::NoMemory;
use std::io;
use std::path::PathBuf;

/// Why a request failed, or was not begun.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// It is not of whole blocks.
    #[error("{bytes} bytes; expected 1 or more blocks of {block_bytes}")]
    Blocks {
        /// What was asked for.
        bytes: usize,
        /// Of the disk.
        block_bytes: usize,
    },
    /// It goes beyond the disk, or has no blocks.
    #[error("{count} blocks from {first}; the disk has {blocks}")]
    Beyond {
        /// Its first block.
        first: u64,
        /// Its blocks.
        count: u64,
        /// Of the disk.
        blocks: u64,
    },
    /// It is more than a request's buffer.
    #[error("{bytes} bytes in one request; it takes {bytes_max} at most")]
    Long {
        /// What was asked for.
        bytes: usize,
        /// Of a request.
        bytes_max: usize,
    },
    /// As many requests are in flight, or wait for their results to be fetched, as there is room for.
    #[error("all {requests} requests are in flight, or their results were not fetched")]
    Full {
        /// That there is room for.
        requests: usize,
    },
    /// There is no such request, or its result was fetched.
    #[error("no such request, or its result was fetched before")]
    NoRequest,
    /// The controller has completed it with an error, after it was tried as often as it may be.
    #[error("the command failed: {0}")]
    Status(Status),
    /// It does not come from the controller, however often that was reset.
    #[error("the controller was reset {resets} times, and has not completed it")]
    GaveUp {
        /// One after the other.
        resets: u32,
    },
    /// It was given up before.
    #[error("the disk was given up before: {why}")]
    GivenUp {
        /// The first error.
        why: String,
    },
    /// The controller can't go on.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
    /// The command could not be built.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Its memory is not there.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The file's system refused it.
    #[error("{}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<QueueError> for ChunkError {
    fn from(error: QueueError) -> Self {
        Self::Nvme(error.into())
    }
}
