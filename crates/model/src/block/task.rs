//! Tasks of the host's CPUs.

use crate::host::Level;

/// A task of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A thread takes its finished requests and submits a new one.
    RunThread { thread: u32, is_woken: bool },
    /// Processes the completions of a queue.
    ProcessCompletions { queue: u32, by_interrupt: bool },
}

impl Task {
    /// Whether it runs as a thread or as an interrupt.
    pub(super) fn level(self) -> Level {
        match self {
            Self::RunThread { .. } => Level::Thread,
            Self::ProcessCompletions { .. } => Level::Interrupt,
        }
    }
}

/// An effect of a task, applied when its step is reached.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A thread has taken a finished request: its latency ends here.
    RequestFinished { request: u32 },
    /// A thread starts a request: its latency counts from here.
    RequestStarted { request: u32 },
    /// The doorbell for a command is written.
    Doorbell { command: u32 },
    /// A thread continues with a new task.
    ThreadContinues { thread: u32 },
    /// A thread goes to sleep.
    ThreadSleeps { thread: u32 },
    /// A command was processed.
    CommandCompleted { command: u32 },
    /// A task has drained the queue.
    QueueDrained { queue: u32 },
}
