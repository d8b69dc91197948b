//! Tasks of the hosts' CPUs.

use crate::host::Level;

/// A task of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Polls a receive ring (NAPI).
    Poll { ring: u32, by_interrupt: bool },
    /// Cleans up sent bursts.
    CleanUp { ring: u32, by_interrupt: bool },
    /// An application thread writes.
    Write { flow: u32 },
    /// An application thread reads.
    Read { flow: u32 },
}

impl Task {
    /// Whether it runs as a thread or as an interrupt.
    pub(super) fn level(self) -> Level {
        match self {
            Self::Poll { .. } | Self::CleanUp { .. } => Level::Interrupt,
            Self::Write { .. } | Self::Read { .. } => Level::Thread,
        }
    }
}

/// An effect of a task, applied when its step is reached.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// The doorbell for a burst is written.
    Send { burst: u32 },
    /// Received bytes are passed to a flow.
    Deliver { flow: u32, bytes: u32 },
    /// An acknowledgement for a flow was processed.
    Acknowledged { flow: u32, bytes: u32 },
    /// A poll has processed its frames.
    Polled { ring: u32 },
    /// A clean-up has processed its bursts.
    CleanedUp { ring: u32 },
    /// A message was written.
    Written { flow: u32 },
    /// Bytes were read.
    Read { flow: u32, bytes: u64 },
}
