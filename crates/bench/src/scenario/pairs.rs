//! The scenario `pairs`: allocates a page and frees it.

use super::{Setup, Worker};
use crate::caller::{Caller, Counts};
use iova::Request;

/// A thread's part of the scenario.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
pub(super) struct Pairs {
    request: Request,
}

impl Pairs {
    pub(super) fn new(setup: &Setup, thread: usize) -> Self {
        Self { request: Request { memory: setup.memory(thread), ..Request::size_aligned(1, setup.limit()) } }
    }
}

impl Worker for Pairs {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        for _ in 0..pairs {
            if let Some(range) = caller.allocate(&self.request) {
                caller.free(range);
            }
        }
        caller.finish(2 * pairs)
    }
}
