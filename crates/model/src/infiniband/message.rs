//! Messages, and where their bytes are.

use des::Time;
use serde::Deserialize;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// The other side has said where it goes, in its receive queue, and gets a completion.
    Send,
    /// RDMA write: goes where the sender says.
    Write,
    /// RDMA read: fetched from the other side.
    Read,
}

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The adapter's own.
    Adapter,
    /// The host's, behind the bus.
    Host,
}

/// Bytes of a region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    /// Of its node.
    pub(super) region: u32,
    /// From the region's beginning.
    pub(super) offset: u64,
    pub(super) place: Place,
}

/// What somebody asks an adapter to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) verb: Verb,
    /// The queue pair that it is put into.
    pub(super) qp: u32,
    pub(super) bytes: u64,
    /// On the side that asks.
    pub(super) local: Buffer,
    /// On the other.
    pub(super) remote: Buffer,
    /// For who asked.
    pub(super) tag: u64,
}

/// Work in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) work: Work,
    pub(super) posted: Time,
    /// Bytes for which packets were begun.
    pub(super) begun: u64,
    /// And that were put on their way to the memory where they go.
    pub(super) placed: u64,
    /// What comes after it in its queue.
    pub(super) next: u32,
    /// One of both sides knows that it has come.
    pub(super) is_known: bool,
}

/// No message, job, or fetch.
pub(super) const NONE: u32 = u32::MAX;
