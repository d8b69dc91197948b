//! Tasks of the host's CPUs.

use crate::host::Level;

/// A task of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// A thread takes its finished requests and submits a new one.
    RunThread { thread: u32, is_woken: bool },
    /// A thread polls its own queue and submits a new request.
    PollQueue { thread: u32 },
    /// Processes the completions of a kernel queue.
    HandleInterrupt { queue: u32 },
    /// Submits a request on another path.
    Resubmit { request: u32 },
}

impl Task {
    /// Whether it runs as a thread or as an interrupt.
    pub(super) fn level(self) -> Level {
        match self {
            Self::RunThread { .. } | Self::PollQueue { .. } => Level::Thread,
            Self::HandleInterrupt { .. } | Self::Resubmit { .. } => Level::Interrupt,
        }
    }
}

/// An effect of a task, applied when its step is reached.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    /// A thread starts a request: its latency counts from here.
    RequestStarted { request: u32 },
    /// The doorbell for a command is written.
    Doorbell { command: u32 },
    /// No path was usable for a request when this CPU submitted it.
    NoPath { request: u32, cpu: u32 },
    /// A thread has taken a finished request: its latency ends here.
    RequestFinished { request: u32 },
    /// A thread continues with a new task.
    ThreadContinues { thread: u32 },
    /// A thread found nothing and keeps polling.
    PollingStarts { thread: u32 },
    /// A thread goes to sleep.
    ThreadSleeps { thread: u32 },
    /// An interrupt's task has drained the queue.
    QueueDrained { queue: u32 },
    /// A command was processed by this CPU.
    CommandCompleted { command: u32, cpu: u32 },
}
