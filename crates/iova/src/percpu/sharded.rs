//! Per-CPU steps with locks, for hosts without restartable sequences.

use super::cpus::Cpus;
use super::stack::{CLOSED, NO_PAGE, Stack};
use crate::lock::Lock;
use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// A lock for each shard. Shards take the place of CPUs: a thread belongs to one shard on whichever CPU it runs.
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
    /// Creates `count` shards. `current` returns the caller's shard, modulo `count`.
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
        (top < CLOSED && top + more <= limit && compare_and_set(&stack.top, top, NO_PAGE)).then_some(top)
    }

    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        let _step = self.shards[cpu].0.lock();
        compare_and_set(&stack.top, NO_PAGE, page)
    }

    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        let below = count.checked_sub(1)?;
        let page = stack.pages.get(usize::try_from(below).ok()?)?.load(Ordering::Relaxed);
        (page + more <= limit && compare_and_set(&stack.count, count, below)).then_some(page)
    }

    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        let Some(place) = usize::try_from(count).ok().and_then(|count| stack.pages.get(count)) else {
            return false;
        };
        place.store(page, Ordering::Relaxed);
        compare_and_set(&stack.count, count, count + 1)
    }

    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64> {
        if self.current() != cpu {
            return None;
        }
        let _step = self.shards[cpu].0.lock();
        let count = stack.count.load(Ordering::Acquire);
        compare_and_set(&stack.count, count, CLOSED).then_some(count)
    }

    fn fence(&self, cpu: usize) {
        drop(self.shards[cpu].0.lock());
    }
}

/// Sets a word if it still has the value `from`. The shard's lock is not enough, because threads of other shards close
/// stacks without it.
fn compare_and_set(word: &AtomicU64, from: u64, to: u64) -> bool {
    word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::PercpuStacks;
    use std::time::Duration;

    #[test]
    fn a_fence_waits_for_the_step_of_its_shard() {
        let host = PercpuStacks::Sharded(Sharded::new(2, || 0));
        let PercpuStacks::Sharded(Sharded { shards, .. }) = &host else { return };
        let steps_done = AtomicU64::new(0);
        let step = shards[1].0.lock();
        std::thread::scope(|scope| {
            let fence = scope.spawn(|| {
                host.fence(0);
                host.fence(1);
                steps_done.load(Ordering::Relaxed)
            });
            // Without a wait, the fence would be over by then.
            std::thread::sleep(Duration::from_millis(50));
            steps_done.store(1, Ordering::Relaxed);
            drop(step);
            assert_eq!(fence.join().unwrap(), 1);
        });
    }
}
