//! Errors of commands that are futures.

use crate::blocks::BlockError;
use crate::queue_pair::QueueError;
use crate::spec::status::Status;
use dma::NoMemory;

/// Why a command was not executed, or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AsyncError {
    /// The command was not submitted.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The controller completed it with an error.
    #[error("the controller reports: {0}")]
    Status(Status),
    /// The queue failed while it was in flight: it may have been executed.
    #[error("the queue failed")]
    Queue(#[source] QueueError),
    /// An append was in flight at a reset: it was executed once or not at all. A zone report tells by the write pointer.
    #[error("the controller was reset while it appended to a zone: the data were written once or not at all")]
    CutOff,
    /// The controller reports more zones than can be returned at once.
    #[error("more than 2^20 zones; expected less, or to be asked for a part")]
    TooManyZones,
    /// The data are longer than a request's buffer.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

impl AsyncError {
    /// Whether a compare found a difference.
    pub fn is_compare_failure(&self) -> bool {
        matches!(self, Self::Status(status) if status.is_compare_failure())
    }
}
