//! A thread's calls into an allocator: counted, and some of them timed.

use crate::clock::TickClock;
use iova::{AllocateError, Allocator, FreeError, Range, Request};
use std::hint::black_box;

/// One call in this many is timed: a prime, so that no batch size is met at the same place each time.
pub(crate) const SAMPLE_EVERY: u32 = 61;

/// Calls an allocator for one thread.
pub(crate) struct Caller<'a> {
    allocator: &'a dyn Allocator,
    clock: TickClock,
    /// Calls until the next one that is timed.
    left: u32,
    every: u32,
    pub(crate) counted: Counted,
}

/// What was counted of a thread's calls.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// Ticks of each allocation that was timed.
    pub(crate) allocations_ticks: Vec<u64>,
    /// Ticks of each free that was timed.
    pub(crate) frees_ticks: Vec<u64>,
    /// Allocations that got nothing.
    pub(crate) failed: u64,
    /// Frees that were not taken.
    pub(crate) refused: u64,
}

impl<'a> Caller<'a> {
    /// Without timing.
    pub(crate) fn untimed(allocator: &'a dyn Allocator, clock: TickClock) -> Self {
        Self { allocator, clock, left: u32::MAX, every: u32::MAX, counted: Counted::default() }
    }

    /// With room for what is timed of `calls` calls. Threads begin at different places of the period.
    pub(crate) fn sampling(
        allocator: &'a dyn Allocator,
        clock: TickClock,
        thread: usize,
        calls: u64,
    ) -> Self {
        let room = usize::try_from(calls / u64::from(SAMPLE_EVERY)).unwrap_or(0) + 2;
        let counted = Counted {
            allocations_ticks: Vec::with_capacity(room),
            frees_ticks: Vec::with_capacity(room),
            ..Counted::default()
        };
        let left = (thread as u32 * 17) % SAMPLE_EVERY;
        Self { allocator, clock, left, every: SAMPLE_EVERY, counted }
    }

    #[inline]
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<Range> {
        let answer = match self.is_next_sampled() {
            false => self.allocator.allocate(black_box(request)),
            true => self.timed_allocate(request),
        };
        if answer.is_err() {
            self.counted.failed += 1;
        }
        answer.ok()
    }

    #[inline]
    pub(crate) fn free(&mut self, range: Range) {
        let answer = match self.is_next_sampled() {
            false => self.allocator.free(black_box(range)),
            true => self.timed_free(range),
        };
        if answer.is_err() {
            self.counted.refused += 1;
        }
    }

    #[inline]
    fn is_next_sampled(&mut self) -> bool {
        let now = self.left == 0;
        self.left = if now { self.every - 1 } else { self.left - 1 };
        now
    }

    #[cold]
    fn timed_allocate(&mut self, request: &Request) -> Result<Range, AllocateError> {
        let start = self.clock.now();
        let answer = self.allocator.allocate(request);
        self.counted.allocations_ticks.push(self.clock.now().saturating_sub(start));
        answer
    }

    #[cold]
    fn timed_free(&mut self, range: Range) -> Result<(), FreeError> {
        let start = self.clock.now();
        let answer = self.allocator.free(range);
        self.counted.frees_ticks.push(self.clock.now().saturating_sub(start));
        answer
    }
}
