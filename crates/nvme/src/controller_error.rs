//! Errors of a controller and its admin commands.

use crate::queue_pair::QueueError;
use crate::spec::status::Status;
use dma::{DmaError, NoMemory};
use std::time::Duration;

/// Why a controller can't be used, or an admin command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NvmeError {
    /// The registers read as all ones: the adapter was removed.
    #[error("the adapter was removed: its registers read as all ones")]
    Gone,
    /// The adapter is being unbound or removed, which waits until it is closed.
    #[error("the system wants the adapter back: it is being unbound or removed")]
    WantedBack,
    /// CSTS.CFS is set. The controller needs a reset.
    #[error("the controller has a fatal error (CSTS.CFS) and needs a reset")]
    Fatal,
    /// CSTS.RDY is clear: something else reset the controller or its link.
    #[error(
        "the controller has stopped (CSTS.RDY is clear): it or its link was reset by something else, and it must be initialised again"
    )]
    Stopped,
    /// After a reset the controller or its namespaces differ.
    #[error("after the reset {what} changed")]
    Changed {
        /// What differs.
        what: &'static str,
    },
    /// A list that the controller reports is not in order, so that it can't be relied on.
    #[error("the controller's list of {what} is not in order")]
    Disordered {
        /// What is listed.
        what: &'static str,
    },
    /// A timeout.
    #[error("the controller has not {what} within {} ms", limit.as_millis())]
    TimedOut {
        /// What the controller should have done.
        what: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// The controller lacks something that this driver needs.
    #[error("the controller has no {0}")]
    Unsupported(&'static str),
    /// An admin command failed.
    #[error("{what}: {status}")]
    Refused {
        /// The command.
        what: &'static str,
        /// Its completion's status.
        status: Status,
    },
    /// A queue is full or misbehaves.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Mapping memory failed.
    #[error("can't map memory for the controller")]
    Dma(#[from] DmaError),
    /// A shutdown while other threads hold the controller.
    #[error("can't shut down the controller: other threads still use it")]
    InUse,
    /// An address is outside the memory given.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}
