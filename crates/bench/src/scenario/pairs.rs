//! Allocate a page, free it.

use super::{Hand, Setup};
use crate::caller::Caller;
use iova::Request;

pub(super) struct Pairs {
    request: Request,
}

impl Pairs {
    pub(super) fn new(setup: &Setup, thread: usize) -> Self {
        Self { request: Request { memory: setup.memory(thread), ..Request::size_aligned(1, setup.limit()) } }
    }
}

impl Hand for Pairs {
    fn work(&mut self, caller: &mut Caller<'_>, pairs: u64) -> u64 {
        for _ in 0..pairs {
            if let Some(range) = caller.allocate(&self.request) {
                caller.free(range);
            }
        }
        2 * pairs
    }
}
