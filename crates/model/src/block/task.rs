//! What CPUs have to do for block jobs.

use crate::host::Level;

/// Something for a CPU to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A thread takes what is done, and asks for more.
    Go { thread: u32, is_woken: bool },
    /// Completes what a queue's adapter has done.
    Complete { queue: u32, by_interrupt: bool },
}

impl Task {
    pub(super) fn level(self) -> Level {
        match self {
            Self::Go { .. } => Level::Thread,
            Self::Complete { .. } => Level::Interrupt,
        }
    }
}

/// What a task leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A thread has what it asked for.
    Taken { request: u32 },
    /// It begins to ask.
    Begun { request: u32 },
    /// The doorbell is rung for a command.
    Rung { command: u32 },
    /// A thread has done what it was to do in one go.
    Asked { thread: u32 },
    /// It sleeps.
    Slept { thread: u32 },
    /// A command is completed.
    Completed { command: u32 },
    /// All that was taken of a queue is.
    Reaped { queue: u32 },
}
