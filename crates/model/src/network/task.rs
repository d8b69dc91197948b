//! What CPUs have to do for a network.

use crate::host::Level;

/// Something for a CPU to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// Takes received frames from a ring.
    Poll { ring: u32, by_interrupt: bool },
    /// Takes back what was sent.
    Reap { ring: u32, by_interrupt: bool },
    /// An application's thread writes.
    Write { flow: u32 },
    /// It reads.
    Read { flow: u32 },
}

impl Task {
    pub(super) fn level(self) -> Level {
        match self {
            Self::Poll { .. } | Self::Reap { .. } => Level::Interrupt,
            Self::Write { .. } | Self::Read { .. } => Level::Thread,
        }
    }
}

/// What a task leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// Frames are handed to the adapter.
    Send { burst: u32 },
    /// A flow has bytes to read.
    Deliver { flow: u32, bytes: u32 },
    /// A flow's bytes have come to the other side.
    Acknowledged { flow: u32, bytes: u32 },
    /// All that the poll took is done.
    Polled { ring: u32 },
    /// All that was taken back is.
    Reaped { ring: u32 },
    /// A message was written.
    Written { flow: u32 },
    /// Bytes were read.
    Read { flow: u32, bytes: u64 },
}
