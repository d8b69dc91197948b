//! Steps on a CPU by locks: where restartable sequences are not to be had.

use super::cpus::{Cpus, Exchange, NOT_DONE};
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

    fn take(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64) -> u64 {
        let _step = self.shards[cpu].0.lock();
        if guard.load(Ordering::Acquire) != guard_is {
            return 0;
        }
        let old = word.load(Ordering::Relaxed);
        word.store(old & old.wrapping_sub(1), Ordering::Relaxed);
        old
    }

    fn put(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64, bits: u64) -> u64 {
        let _step = self.shards[cpu].0.lock();
        if guard.load(Ordering::Acquire) != guard_is {
            return NOT_DONE;
        }
        let old = word.load(Ordering::Relaxed);
        word.store(old | bits, Ordering::Relaxed);
        old
    }

    fn exchange(&self, cpu: usize, word: &AtomicU64, old: u64, new: u64) -> Exchange {
        let _step = self.shards[cpu].0.lock();
        match word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Exchange::Done,
            Err(_) => Exchange::Changed,
        }
    }

    fn fence(&self, cpu: usize) {
        drop(self.shards[cpu].0.lock());
    }
}
