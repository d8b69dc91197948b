//! A thread's calls into an allocator: counted, and some of them timed.

use crate::clock::TickClock;
use iova::{AllocateError, Allocator, FreeError, Range, Request};

/// Every how many calls one is timed: a prime, so that no batch size is always sampled at the same position.
pub(crate) const SAMPLE_EVERY: u32 = 61;

/// Calls an allocator for one thread.
///
/// Passed by value, with the samples elsewhere, so that the compiler keeps it in registers. Every figure includes its
/// overhead.
pub(crate) struct Caller<'a> {
    allocator: &'a dyn Allocator,
    samples: &'a mut Samples,
    /// Calls until the next timed one.
    left: u32,
    /// Failed allocations.
    pub(crate) failed: u64,
    /// Failed frees.
    refused: u64,
}

/// Durations of the timed calls, in ticks.
#[derive(Debug)]
pub(crate) struct Samples {
    clock: TickClock,
    pub(crate) allocations_ticks: Vec<u64>,
    pub(crate) frees_ticks: Vec<u64>,
}

/// Counts of a thread's calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// All calls.
    pub(crate) calls: u64,
    /// Failed allocations.
    pub(crate) failed: u64,
    /// Failed frees.
    pub(crate) refused: u64,
}

impl Counts {
    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            failed: self.failed + other.failed,
            refused: self.refused + other.refused,
        }
    }
}

impl Samples {
    /// Space for the samples of `calls` calls.
    pub(crate) fn with_capacity_for(calls: u64, clock: TickClock) -> Self {
        let room = usize::try_from(calls / u64::from(SAMPLE_EVERY)).unwrap_or(0) + 2;
        Self { clock, allocations_ticks: Vec::with_capacity(room), frees_ticks: Vec::with_capacity(room) }
    }

    /// Allocates and records the duration. Out of line, because it is called rarely.
    #[cold]
    #[inline(never)]
    fn allocate(&mut self, allocator: &dyn Allocator, request: &Request) -> Result<u64, AllocateError> {
        let start = self.clock.now();
        let answer = allocator.allocate(request);
        self.allocations_ticks.push(self.clock.now().saturating_sub(start));
        answer
    }

    /// Frees and records the duration. Out of line, because it is called rarely.
    #[cold]
    #[inline(never)]
    fn free(&mut self, allocator: &dyn Allocator, range: Range) -> Result<(), FreeError> {
        let start = self.clock.now();
        let answer = allocator.free(range);
        self.frees_ticks.push(self.clock.now().saturating_sub(start));
        answer
    }
}

impl<'a> Caller<'a> {
    /// Starts each thread at another position of the sampling period.
    pub(crate) fn new(allocator: &'a dyn Allocator, samples: &'a mut Samples, thread: usize) -> Self {
        Self { allocator, samples, left: (thread as u32 * 17) % SAMPLE_EVERY, failed: 0, refused: 0 }
    }

    /// Allocates a range; counts a failure and times every [`SAMPLE_EVERY`]th call.
    #[inline(always)]
    pub(crate) fn allocate(&mut self, request: &Request) -> Option<Range> {
        let answer = match self.is_next_timed() {
            false => self.allocator.allocate(request),
            true => self.samples.allocate(self.allocator, request),
        };
        if answer.is_err() {
            self.failed += 1;
        }
        answer.ok().map(|first| request.range(first))
    }

    /// Frees a range; counts a failure and times every [`SAMPLE_EVERY`]th call.
    #[inline(always)]
    pub(crate) fn free(&mut self, range: Range) {
        let answer = match self.is_next_timed() {
            false => self.allocator.free(range),
            true => self.samples.free(self.allocator, range),
        };
        if answer.is_err() {
            self.refused += 1;
        }
    }

    /// Whether the next call is to be timed; counts down to it.
    #[inline(always)]
    fn is_next_timed(&mut self) -> bool {
        let now = self.left == 0;
        self.left = if now { SAMPLE_EVERY - 1 } else { self.left - 1 };
        now
    }

    /// Ends the thread's work and returns its counts; `calls` is the number of calls made.
    pub(crate) fn finish(self, calls: u64) -> Counts {
        Counts { calls, failed: self.failed, refused: self.refused }
    }
}
