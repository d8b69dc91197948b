//! CPUs: hardware threads of cores, each with what it has to do.

use super::outcome::Stage;
use des::{Span, Time};
use std::collections::VecDeque;

/// The CPUs of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpus {
    /// Cores.
    pub cores: u32,
    /// Cores of a chip, which pass a cache line to each other faster than to others.
    pub cores_per_node: u32,
    /// What a core gets done with 1, 2, ... threads at work, 1 with one; as many as a core has threads.
    pub core_capacity: Vec<f64>,
    /// What a sleeping thread of execution takes to be back on an idle CPU.
    pub wake: Span,
}

impl Cpus {
    /// Hardware threads of a core.
    pub fn threads_per_core(&self) -> u32 {
        self.core_capacity.len() as u32
    }

    /// Hardware threads of all.
    pub fn threads(&self) -> u32 {
        self.cores * self.threads_per_core()
    }

    /// The hardware thread with this place in a core. They are numbered core by core, as Linux does on POWER.
    pub(super) fn number(&self, core: u32, thread: u32) -> u32 {
        core * self.threads_per_core() + thread
    }

    pub(super) fn core(&self, cpu: u32) -> u32 {
        cpu / self.threads_per_core()
    }

    /// Where a lock's cache line is when this CPU has it: its core's first-level cache.
    pub(super) fn holder(&self, cpu: u32) -> des::Cpu {
        let core = self.core(cpu);
        des::Cpu { number: core, node: core / self.cores_per_node.max(1) }
    }
}

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
    /// Interrupts first.
    fn level(self) -> usize {
        match self {
            Self::Poll { .. } | Self::Reap { .. } => 0,
            Self::Write { .. } | Self::Read { .. } => 1,
        }
    }
}

/// A piece of a task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// So long, if the core has nothing else to do.
    Work(Span, Stage),
    /// A lock is taken.
    Acquire(u32),
    /// It is given back.
    Release(u32),
    /// Something happens elsewhere.
    Then(Effect),
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

/// A hardware thread.
#[derive(Debug, Default)]
pub(super) struct Cpu {
    lines: [VecDeque<Task>; 2],
    /// What is left of its task, last first.
    pub(super) steps: Vec<Step>,
    pub(super) is_busy: bool,
    /// What it does, and since when.
    doing: Option<(Stage, Time)>,
    busy_since: Time,
    busy: Span,
}

impl Cpu {
    pub(super) fn push(&mut self, task: Task) {
        self.lines[task.level()].push_back(task);
    }

    pub(super) fn pop(&mut self) -> Option<Task> {
        self.lines.iter_mut().find_map(VecDeque::pop_front)
    }

    /// What it did up to now; from now on it does this.
    pub(super) fn set_doing(&mut self, now: Time, stage: Option<Stage>) -> Option<(Stage, Span)> {
        let done = self.done_until(now);
        self.doing = stage.map(|stage| (stage, now));
        done
    }

    /// How long it does what it does now.
    pub(super) fn done_until(&self, now: Time) -> Option<(Stage, Span)> {
        self.doing.map(|(stage, since)| (stage, now.since(since).unwrap_or_default()))
    }

    pub(super) fn set_busy(&mut self, now: Time, is_busy: bool) {
        self.busy = self.busy_until(now);
        (self.is_busy, self.busy_since) = (is_busy, now);
    }

    /// How long it was busy up to now.
    pub(super) fn busy_until(&self, now: Time) -> Span {
        let since = if self.is_busy { now.since(self.busy_since).unwrap_or_default() } else { Span::ZERO };
        self.busy + since
    }
}
