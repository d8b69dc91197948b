//! What an instance does, and how far it is.

use des::Time;

/// What each instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Who waits for whom.
    pub pattern: Pattern,
    /// What carries it.
    pub protocol: Protocol,
    /// Bytes of each message.
    pub message_bytes: u64,
}

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The client sends a message and waits for one as long; the server the other way round.
    Exchange,
    /// The client writes as much as it can.
    Stream {
        /// Bytes that may be written and not yet read, nor acknowledged.
        window_bytes: u64,
    },
}

/// What carries messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Datagrams, each frame of one mapped whole.
    Udp,
    /// Connections; headers are mapped apart from what follows.
    Tcp {
        /// Bytes that the adapter cuts into frames by itself (TSO).
        segment_bytes_max: u64,
    },
}

impl Protocol {
    /// Headers of IP and above in each frame; TCP's with timestamps.
    pub(super) fn header_bytes(self) -> u64 {
        match self {
            Self::Udp => 28,
            Self::Tcp { .. } => TCP_HEADER_BYTES,
        }
    }
}

/// Of IP and TCP.
pub(super) const TCP_HEADER_BYTES: u64 = 52;

/// An instance of the client, with its thread of the server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    /// When the exchange began.
    pub(super) began: Time,
    /// Where its threads are, at the client and at the server.
    pub(super) cpus: [u32; 2],
    /// Bytes that came and were not read, at the client and at the server.
    pub(super) unread: [u64; 2],
    /// A thread waits for bytes.
    pub(super) is_reading: [bool; 2],
    /// Bytes of a stream that wait to fill a frame.
    pub(super) gathered: u64,
    /// Bytes of a stream that were sent, read, and acknowledged.
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) acknowledged: u64,
    /// The stream's client waits for room.
    pub(super) is_blocked: bool,
    /// Receipts that the acknowledgement to come tells of.
    pub(super) to_acknowledge: u64,
}

impl Flow {
    /// Bytes of a stream that count against its window.
    pub(super) fn in_flight(&self) -> u64 {
        self.written - self.read.min(self.acknowledged)
    }
}
