//! The scenarios `held`, `network` and `storage`: a thread holds ranges, frees the oldest and allocates a new one.

use super::{Setup, Worker};
use crate::caller::{Caller, Counts};
use crate::random::Random;
use crate::sizes::Sizes;
use iova::{Range, Request};

/// Sizes that are drawn in advance and used cyclically: few enough for the CPU's first-level cache.
const SIZES: usize = 4096;

/// The sequence of a thread's requests.
pub(super) struct Requests {
    pages: Vec<u16>,
    next: usize,
    memory: u64,
    limit: u64,
}

impl Requests {
    /// Draws the sizes of a thread's requests.
    pub(super) fn new(setup: &Setup, sizes: Sizes, thread: usize) -> Self {
        let mut random = Random::of_thread(setup.seed, thread);
        let pages = (0..SIZES).map(|_| sizes.choose(&mut random) as u16).collect();
        Self { pages, next: 0, memory: setup.memory(thread), limit: setup.limit() }
    }

    /// The next request of the sequence, which repeats.
    #[inline]
    pub(super) fn next(&mut self) -> Request {
        let pages = self.pages[self.next % SIZES];
        self.next += 1;
        Request { memory: self.memory, ..Request::size_aligned(u64::from(pages), self.limit) }
    }
}

/// A thread's part of the scenario.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
pub(super) struct Ring {
    held: Vec<Option<Range>>,
    oldest: usize,
    requests: Requests,
}

impl Ring {
    pub(super) fn new(setup: &Setup, sizes: Sizes, thread: usize) -> Self {
        let held = vec![None; setup.held(sizes) as usize];
        Self { held, oldest: 0, requests: Requests::new(setup, sizes, thread) }
    }
}

impl Worker for Ring {
    fn fill(&mut self, caller: &mut Caller<'_>) {
        for slot in &mut self.held {
            *slot = caller.allocate(&self.requests.next());
        }
    }

    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        for _ in 0..pairs {
            let slot = &mut self.held[self.oldest];
            if let Some(range) = slot.take() {
                caller.free(range);
            }
            *slot = caller.allocate(&self.requests.next());
            self.oldest = if self.oldest + 1 == self.held.len() { 0 } else { self.oldest + 1 };
        }
        caller.finish(2 * pairs)
    }
}
