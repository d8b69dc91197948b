//! Steps on a CPU by locks: where restartable sequences are not to be had.

use super::cpus::Cpus;
use super::stack::{CLOSED, NO_PAGE, Stack};
use crate::lock::Lock;
use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// A lock for each of a number of shards, which stand for CPUs. A thread belongs to one, wherever it runs.
#[derive(Debug)]
pub struct Sharded {
    shards: Box<[Line]>,
    current: fn() -> usize,
}

/// A lock in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Line(Lock<()>);

impl Sharded {
    /// As many shards as `count`; `current` names the caller's, of which the remainder is taken.
    pub fn new(count: usize, current: fn() -> usize) -> Self {
        Self { shards: (0..count.max(1)).map(|_| Line(Lock::new(()))).collect(), current }
    }
}

impl Cpus for Sharded {
    fn count(&self) -> usize {
        self.shards.len()
    }

    fn current(&self) -> usize {
        (self.current)() % self.shards.len()
    }

    fn take_top(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        let _step = self.shards[cpu].0.lock();
        let top = stack.top.load(Ordering::Acquire);
        (top < CLOSED && top + more <= limit && changed(&stack.top, top, NO_PAGE)).then_some(top)
    }

    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        let _step = self.shards[cpu].0.lock();
        changed(&stack.top, NO_PAGE, page)
    }

    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        let below = count.checked_sub(1)?;
        let page = stack.pages.get(usize::try_from(below).ok()?)?.load(Ordering::Relaxed);
        (page + more <= limit && changed(&stack.count, count, below)).then_some(page)
    }

    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        let Some(place) = usize::try_from(count).ok().and_then(|count| stack.pages.get(count)) else {
            return false;
        };
        place.store(page, Ordering::Relaxed);
        changed(&stack.count, count, count + 1)
    }

    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64> {
        if self.current() != cpu {
            return None;
        }
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        changed(&stack.count, count, CLOSED).then_some(count)
    }

    fn fence(&self, cpu: usize) {
        drop(self.shards[cpu].0.lock());
    }
}

/// A thread of another shard, which closes the stack, takes no part in the lock.
fn changed(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
