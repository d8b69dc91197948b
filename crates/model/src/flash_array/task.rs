//! What CPUs have to do for storage.

use crate::host::Level;

/// Something for a CPU to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A thread takes what is done, and asks for more.
    Go { thread: u32, is_woken: bool },
    /// One with a queue of its own polls there, and asks for more.
    Look { thread: u32 },
    /// Completes what is in a queue.
    Complete { queue: u32 },
    /// Sends a request by another path.
    Retry { request: u32 },
}

impl Task {
    pub(super) fn level(self) -> Level {
        match self {
            Self::Go { .. } | Self::Look { .. } => Level::Thread,
            Self::Complete { .. } | Self::Retry { .. } => Level::Interrupt,
        }
    }
}

/// What a task leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A thread begins to ask.
    Begun { request: u32 },
    /// The adapter is told of a command.
    Rung { command: u32 },
    /// A request has no path, as far as this CPU knows.
    Waits { request: u32, cpu: u32 },
    /// A thread has what it asked for.
    Taken { request: u32 },
    /// A thread may do more.
    Goes { thread: u32 },
    /// It has found nothing, and polls again and again.
    Polls { thread: u32 },
    /// It sleeps.
    Slept { thread: u32 },
    /// All that was taken of a queue is out of it.
    Reaped { queue: u32 },
    /// A command is done with, by this CPU.
    Completed { command: u32, cpu: u32 },
}
