//! A flow: what an instance does, and its state.

use des::Time;

/// What each instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Communication pattern.
    pub pattern: Pattern,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Bytes per message.
    pub message_bytes: u64,
    /// Messages of a stream are sent at once, however short (`TCP_NODELAY`).
    pub is_nodelay: bool,
}

/// Communication pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Request and response: each side sends a message and waits for one of the same length.
    Exchange,
    /// The client writes as fast as it can.
    Stream {
        /// Window: most bytes written and not yet read, acknowledged and freed by the driver.
        window_bytes: u64,
    },
}

/// Transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// UDP; each frame of a datagram is mapped as a whole.
    Udp,
    /// TCP; headers are mapped separately from data.
    Tcp {
        /// Largest segment that the adapter splits into frames (TSO).
        segment_bytes_max: u64,
    },
}

impl Protocol {
    /// Bytes of the IP and transport headers in each frame; TCP with timestamps.
    pub(super) fn header_bytes(self) -> u64 {
        match self {
            Self::Udp => 28,
            Self::Tcp { .. } => TCP_HEADER_BYTES,
        }
    }
}

/// Bytes of IP and TCP headers.
pub(super) const TCP_HEADER_BYTES: u64 = 52;

/// State of an instance: a client thread and a server thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    /// When the current exchange began.
    pub(super) began: Time,
    /// CPUs of its threads, at client and server.
    pub(super) cpus: [u32; 2],
    /// Bytes received and not read yet, at client and server.
    pub(super) unread: [u64; 2],
    /// The thread waits for data, at client and server.
    pub(super) is_reading: [bool; 2],
    /// Bytes of a stream that wait until they fill a frame (Nagle).
    pub(super) gathered: u64,
    /// Bytes of a stream: written, read, acknowledged, and freed by the sender's driver.
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) acknowledged: u64,
    pub(super) freed: u64,
    /// The stream's client waits for space in the window.
    pub(super) is_blocked: bool,
    /// Received frames that the next acknowledgement covers.
    pub(super) to_acknowledge: u64,
}

impl Flow {
    /// Bytes of a stream that count against its window. A segment's memory belongs to the socket until it is
    /// acknowledged and the driver has freed it (`sk_wmem_alloc`), which bounds the queue in front of a send ring.
    pub(super) fn in_flight(&self) -> u64 {
        self.written - self.read.min(self.acknowledged).min(self.freed)
    }
}
