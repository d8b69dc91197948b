//! A process that drives a controller for others: each gets queues of its own, and reaches only the blocks of its share and its own memory.
//!
//! ```text
//!   client process                                    broker process
//!   Chunk (ServedQueue)                               Worker: one queue pair for all of its clients
//!     |  requests  --->  Area, memory of the two  --->  checks slot, blocks and rights; copies the data
//!     |  results   <---  one for each connection  <---  Chunk (Drive): retries, aborts, resets
//!     +-- eventfds wake whoever sleeps
//!     +-- socket: its end says that the other process is gone
//! ```
//!
//! A client's memory is never mapped for the controller, and a client names blocks of its share, not addresses: what it sends can be wrong
//! only for itself. That costs a copy. Queues of the controller in the client's hands would not, but a queue's owner can name any block
//! and any mapped address.
//!
//! A [`Share`] is a part of a namespace with a socket; the socket file's permissions say who may use it. Processes of one share trust each
//! other, as those that open the same device file. Virtual LUNs among them are locks on the share's [lock file](ServedDisk::locks). A client that dies
//! may have requests in flight: the broker keeps the locks that its [queue holds](ServedDisk::queue) until they have ended.

mod acceptor;
mod area;
mod client;
mod memory;
mod ring;
mod server;
mod session;
mod share;
mod sleep;
mod socket;
mod wire;
mod worker;

pub use client::{ServedDisk, ServedQueue};
pub use server::{Broker, BrokerEvent, Limits};
pub use share::Share;

use crate::chunk::ChunkError;
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Is told of events, by threads that serve: it should not wait for anything.
pub type EventHandler = Arc<dyn Fn(BrokerEvent) + Send + Sync>;

/// Why a broker, or a client's use of one, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// A socket can't be made, or nobody serves there.
    #[error("{}", socket.display())]
    Socket {
        /// Its path.
        socket: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another process serves at this socket.
    #[error("{}: another process serves there", socket.display())]
    InUse {
        /// Its path.
        socket: PathBuf,
    },
    /// The path leads to a file or folder.
    #[error("{}: a file that is not a socket is there", socket.display())]
    NotASocket {
        /// Its path.
        socket: PathBuf,
    },
    /// The broker, or whoever else listens there, is stopped or busy.
    #[error("{}: no answer", socket.display())]
    NoAnswer {
        /// Its path.
        socket: PathBuf,
    },
    /// The other process speaks another protocol, or another version of this one.
    #[error("{}: no broker of this version answers", socket.display())]
    Protocol {
        /// Its path.
        socket: PathBuf,
    },
    /// The broker has as many clients as it takes, or can't serve another.
    #[error("{}: the broker takes no more clients", socket.display())]
    Full {
        /// Its path.
        socket: PathBuf,
    },
    /// The broker was started anew since the disk was opened.
    #[error("{}: the broker was started anew; open the disk again", socket.display())]
    Restarted {
        /// Its path.
        socket: PathBuf,
    },
    /// A share has no blocks, or blocks that the namespace does not have.
    #[error("blocks {first} to {} of {}; expected 1 or more of the namespace's {blocks}", first.saturating_add(*count), socket.display())]
    NoBlocks {
        /// The share's socket.
        socket: PathBuf,
        /// First block.
        first: u64,
        /// Number of blocks.
        count: u64,
        /// Blocks of the namespace.
        blocks: u64,
    },
    /// Memory or an event can't be made or shared.
    #[error("no memory or event for a client")]
    Resource(#[source] io::Error),
    /// The broker has ended because the disk can't be used any more.
    #[error("the disk can't be served any more: {why}")]
    Lost {
        /// What has happened.
        why: String,
    },
    /// A queue of the controller can't be made.
    #[error("no queue of the controller")]
    Queue(#[from] ChunkError),
}

impl BrokerError {
    /// The error of a socket at this path.
    fn of_socket(socket: &Path, error: Errno) -> Self {
        let socket = socket.to_owned();
        match error {
            Errno::ADDRINUSE => Self::InUse { socket },
            Errno::NOTSOCK => Self::NotASocket { socket },
            Errno::TIMEDOUT => Self::NoAnswer { socket },
            // A socket of another kind.
            Errno::PROTOTYPE => Self::Protocol { socket },
            error => Self::Socket { socket, source: error.into() },
        }
    }
}

/// The error for a resource of the system's.
fn no_resource(error: Errno) -> BrokerError {
    BrokerError::Resource(error.into())
}
