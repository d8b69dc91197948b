//! A hardware thread, and what it has to do.

use super::stage::Stage;
use des::{Span, Time};
use std::collections::VecDeque;

/// Who goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Interrupts.
    Interrupt,
    /// Threads of applications, which sleep where they have nothing to do.
    Thread,
}

/// A piece of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<E> {
    /// So long, if the core has nothing else to do.
    Work(Span, Stage),
    /// So long, whatever the core does: it waits for somebody else, and spins.
    Wait(Span, Stage),
    /// A lock is taken.
    Acquire(u32),
    /// It is given back.
    Release(u32),
    /// An invalidation that takes the IOMMU so long is put into its queue, once there is room.
    Submit(Span),
    /// What this CPU put there is waited for.
    Await,
    /// Something happens elsewhere.
    Then(E),
}

/// A hardware thread with tasks `T`, whose steps lead to effects `E`.
#[derive(Debug)]
pub(super) struct Cpu<T, E> {
    /// What waits, by level.
    lines: [VecDeque<T>; 2],
    /// What is left of its task, last first.
    pub(super) steps: Vec<Step<E>>,
    pub(super) is_busy: bool,
    /// What it does, and since when.
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

    /// Whether it has nothing to do, and nothing waits for it.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_busy && !self.has_next()
    }

    pub(super) fn has_next(&self) -> bool {
        self.lines.iter().any(|line| !line.is_empty())
    }

    /// What goes first, by its level.
    pub(super) fn pop(&mut self) -> Option<(T, Level)> {
        [Level::Interrupt, Level::Thread]
            .into_iter()
            .find_map(|level| Some((self.lines[level as usize].pop_front()?, level)))
    }

    /// Takes away what waits for it to be done with something else, and could as well be done elsewhere.
    pub(super) fn pop_waiting_thread(&mut self) -> Option<T> {
        if self.is_busy { self.lines[Level::Thread as usize].pop_front() } else { None }
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
