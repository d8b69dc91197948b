//! Why a request failed.

use crate::blocks::BlockError;
use crate::controller_error::NvmeError;
use crate::queue_pair::QueueError;
use crate::spec::status::Status;
use dma::NoMemory;
use std::io;
use std::path::PathBuf;

/// Why a request failed, or was not begun.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// The data is not a whole number of blocks.
    #[error("{bytes} bytes; expected 1 or more blocks of {block_bytes}")]
    PartialBlock {
        /// Bytes of the data.
        bytes: usize,
        /// Block size of the disk.
        block_bytes: usize,
    },
    /// No blocks, or blocks beyond the end of the disk.
    #[error("{count} blocks from block {first}; expected 1 or more within the disk's {blocks}")]
    OutOfRange {
        /// First block.
        first: u64,
        /// Number of blocks.
        count: u64,
        /// Blocks of the disk.
        blocks: u64,
    },
    /// The data is larger than a request's buffer.
    #[error("{bytes} bytes in one request; expected at most {bytes_max}")]
    TooLong {
        /// Bytes of the data.
        bytes: usize,
        /// Bytes of the buffer.
        bytes_max: usize,
    },
    /// All slots have a request in flight, or a result that was not fetched.
    #[error("all {requests} request slots are in flight or hold a result that was not fetched")]
    NoFreeSlot {
        /// Number of slots.
        requests: usize,
    },
    /// The handle is not of a current request.
    #[error("no such request: its result was fetched before")]
    NoRequest,
    /// The controller completed the command with an error, and all retries were used or not allowed.
    #[error("the command failed: {0}")]
    Status(Status),
    /// The command did not complete within the allowed number of resets.
    #[error("the command did not complete after {resets} controller resets")]
    TooManyResets {
        /// Resets in a row.
        resets: u32,
    },
    /// A broker does not allow the request: its blocks are not served, or not to be written.
    #[error("the broker refuses the request: its blocks are not served here, or only to be read")]
    Refused,
    /// Paths do not lead to one disk.
    #[error("paths to {what}; expected different controllers of one subsystem that share a namespace")]
    NotOneDisk {
        /// What was given.
        what: &'static str,
    },
    /// A controller was lost, or has started anew, with writes that were not flushed. It may have lost them.
    #[error(
        "a controller was lost, or has started anew: writes that completed there since the last flush may be lost"
    )]
    PathLost,
    /// The system can't tell of several controllers' interrupts.
    #[error("can't wait for several interrupts")]
    Events(#[source] io::Error),
    /// An earlier failure ended all use of the disk.
    #[error("the disk is no longer used after an earlier failure: {why}")]
    Abandoned {
        /// That failure.
        why: String,
    },
    /// The controller failed.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
    /// The command could not be built.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The buffer is outside the memory given.
    #[error(transparent)]
    Memory(#[from] NoMemory),
    /// The operating system returned an error for the file.
    #[error("{}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// That error.
        source: io::Error,
    },
}

impl From<QueueError> for ChunkError {
    fn from(error: QueueError) -> Self {
        Self::Nvme(error.into())
    }
}
