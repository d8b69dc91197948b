//! Messages and buffers.

use des::Time;
use serde::Deserialize;

/// Operation of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Send: the receiver's queue determines the destination, and the receiver gets a completion.
    Send,
    /// RDMA write: the sender determines the destination.
    Write,
    /// RDMA read: the data comes from the other side.
    Read,
}

/// A memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// The adapter's own memory.
    Adapter,
    /// Host memory, over the bus.
    Host,
}

/// A buffer in a memory region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    /// The region on its node.
    pub(super) region: u32,
    /// Offset in the region.
    pub(super) offset: u64,
    pub(super) place: MemoryKind,
}

/// A work request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) verb: Verb,
    /// The queue pair it is posted to.
    pub(super) qp: u32,
    pub(super) bytes: u64,
    /// The buffer at the requester.
    pub(super) local: Buffer,
    /// The buffer at the responder.
    pub(super) remote: Buffer,
    /// A tag for the requester.
    pub(super) tag: u64,
}

/// A message in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) work: Work,
    pub(super) posted: Time,
    /// Bytes for which packets were started.
    pub(super) begun: u64,
    /// Bytes on their way to the destination memory.
    pub(super) placed: u64,
    /// The next message of its queue.
    pub(super) next: u32,
    /// One side has seen its completion.
    pub(super) is_known: bool,
}

/// No message, job or fetch.
pub(super) const NONE: u32 = u32::MAX;
