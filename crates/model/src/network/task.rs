//! Tasks of the hosts' CPUs.

use super::packet::Packet;
use crate::host::Level;

/// A task of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Polls a receive ring (NAPI).
    Poll { ring: u32, by_interrupt: bool },
    /// Cleans up sent bursts.
    CleanUp { ring: u32, by_interrupt: bool },
    /// Moves packets into a send ring that was stopped.
    Transmit { ring: u32 },
    /// An application thread writes.
    Write { flow: u32 },
    /// An application thread reads.
    Read { flow: u32 },
}

impl Task {
    /// Whether it runs as a thread or as an interrupt.
    pub(super) fn level(self) -> Level {
        match self {
            Self::Poll { .. } | Self::CleanUp { .. } | Self::Transmit { .. } => Level::Interrupt,
            Self::Write { .. } | Self::Read { .. } => Level::Thread,
        }
    }
}

/// An effect of a task, applied when its step is reached. Some add further steps to the task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A packet is handed to the driver: mapped and sent, or queued in front of a full ring.
    Transmit { packet: Packet },
    /// The doorbell for a burst is written.
    Send { burst: u32 },
    /// The next of at most `left` packets in front of a ring enters it.
    TransmitNext { ring: u32, left: u32 },
    /// The next of at most `left` frames of a receive ring is processed.
    ReceiveNext { ring: u32, left: u32 },
    /// All frames of a poll are processed: acknowledgements and new buffers follow.
    FinishPoll { ring: u32 },
    /// The next of at most `left` sent bursts is unmapped and freed.
    CleanUpNext { ring: u32, left: u32 },
    /// The driver has freed a stream's bytes.
    Freed { flow: u32, bytes: u32 },
    /// Received bytes are passed to a flow.
    Deliver { flow: u32, bytes: u32 },
    /// An acknowledgement for a flow was processed.
    Acknowledged { flow: u32, bytes: u32 },
    /// A poll has put new buffers into its ring.
    Polled { ring: u32 },
    /// A clean-up has freed its bursts.
    CleanedUp { ring: u32 },
    /// A message was written.
    Written { flow: u32 },
    /// Bytes were read.
    Read { flow: u32, bytes: u64 },
}
