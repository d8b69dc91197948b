//! One hardware thread: its queued tasks, and the steps of the current one.

use super::stage::Stage;
use des::{Span, Time};
use std::collections::VecDeque;

/// Priority of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Interrupts come first.
    Interrupt,
    /// Application threads.
    Thread,
}

/// A step of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<E> {
    /// Work of this duration on an otherwise idle core; a busy core slows it down.
    Work(Span, Stage),
    /// Spinning for this duration, independent of the core's load.
    Wait(Span, Stage),
    /// Acquires a lock, spinning if necessary.
    Acquire(u32),
    /// Releases a lock.
    Release(u32),
    /// Submits an invalidation of this duration to the IOMMU's queue, once the queue has space.
    Submit(Span),
    /// Waits for the invalidations that this CPU submitted.
    Await,
    /// An effect outside the CPU, which takes no time.
    Then(E),
}

/// A hardware thread with tasks `T`, whose steps have effects `E`.
#[derive(Debug)]
pub(super) struct Cpu<T, E> {
    /// Queued tasks, by level.
    lines: [VecDeque<T>; 2],
    /// Remaining steps of the current task, last first.
    pub(super) steps: Vec<Step<E>>,
    pub(super) is_busy: bool,
    /// The current stage, and its start.
    doing: Option<(Stage, Time)>,
    busy_since: Time,
    busy: Span,
}

impl<T, E> Cpu<T, E> {
    pub(super) fn new() -> Self {
        Self {
            lines: [VecDeque::new(), VecDeque::new()],
            steps: Vec::new(),
            is_busy: false,
            doing: None,
            busy_since: Time::ZERO,
            busy: Span::ZERO,
        }
    }

    pub(super) fn push(&mut self, task: T, level: Level) {
        self.lines[level as usize].push_back(task);
    }

    /// Whether it has no current task and no queued one.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy && !self.has_next()
    }

    pub(super) fn has_next(&self) -> bool {
        self.lines.iter().any(|line| !line.is_empty())
    }

    /// Removes the next task, and returns it with its level.
    pub(super) fn pop(&mut self) -> Option<(T, Level)> {
        [Level::Interrupt, Level::Thread]
            .into_iter()
            .find_map(|level| Some((self.lines[level as usize].pop_front()?, level)))
    }

    /// Removes a queued thread task that another CPU may run instead.
    pub(super) fn pop_waiting_thread(&mut self) -> Option<T> {
        if self.is_busy { self.lines[Level::Thread as usize].pop_front() } else { None }
    }

    /// Starts a new stage. Returns the previous one and its duration.
    pub(super) fn set_doing(&mut self, now: Time, stage: Option<Stage>) -> Option<(Stage, Span)> {
        let done = self.done_until(now);
        self.doing = stage.map(|stage| (stage, now));
        done
    }

    /// The current stage, and its duration so far.
    pub(super) fn done_until(&self, now: Time) -> Option<(Stage, Span)> {
        self.doing.map(|(stage, since)| (stage, now.since(since).unwrap_or_default()))
    }

    pub(super) fn set_busy(&mut self, now: Time, is_busy: bool) {
        self.busy = self.busy_until(now);
        (self.is_busy, self.busy_since) = (is_busy, now);
    }

    /// Busy time up to now.
    pub(super) fn busy_until(&self, now: Time) -> Span {
        let since = if self.is_busy { now.since(self.busy_since).unwrap_or_default() } else { Span::ZERO };
        self.busy + since
    }
}
