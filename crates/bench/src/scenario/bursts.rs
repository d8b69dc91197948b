//! The scenario `bursts`: allocates many pages, then frees them all.

use super::{Setup, Worker};
use crate::caller::{Caller, Counts};
use iova::{Range, Request};

/// A thread's part of the scenario.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
pub(super) struct Bursts {
    request: Request,
    burst: u64,
    out: Vec<Range>,
}

impl Bursts {
    pub(super) fn new(setup: &Setup, thread: usize) -> Self {
        let request = Request { memory: setup.memory(thread), ..Request::size_aligned(1, setup.limit()) };
        let burst = setup.burst();
        Self { request, burst, out: Vec::with_capacity(burst as usize) }
    }
}

impl Worker for Bursts {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let bursts = pairs.div_ceil(self.burst);
        for _ in 0..bursts {
            for _ in 0..self.burst {
                self.out.extend(caller.allocate(&self.request));
            }
            self.out.drain(..).for_each(|range| caller.free(range));
        }
        caller.finish(2 * bursts * self.burst)
    }
}
