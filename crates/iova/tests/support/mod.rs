//! Per-CPU steps on CPUs that a test chooses.

use iova::Cpus;
use iova::percpu::{AtomicU64, Slabs, Stack};
#[cfg(loom)]
use loom::sync::{Mutex, atomic::Ordering};
#[cfg(not(loom))]
use std::sync::{Mutex, atomic::Ordering};

/// Steps that hold a lock of their CPU: towards other steps of that CPU they happen at once, towards threads on other CPUs
/// they don't. As in a restartable sequence, the last store of a step overwrites what a thread on another CPU stored since
/// the step's first load. Its accesses have no more order than [`Cpus`] demands.
pub(crate) struct LockedSteps {
    locks: Vec<Mutex<()>>,
    current: fn() -> usize,
}

impl LockedSteps {
    pub(crate) fn new(count: usize, current: fn() -> usize) -> Self {
        Self { locks: (0..count).map(|_| Mutex::new(())).collect(), current }
    }
}

// SAFETY: steps hold the lock of their CPU, which `fence` waits for.
#[allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]
unsafe impl Cpus for LockedSteps {
    fn count(&self) -> usize {
        self.locks.len()
    }

    fn current(&self) -> usize {
        (self.current)()
    }

    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64> {
        let cpu = self.current();
        let stack = slabs.stack(cpu, number)?;
        let _step = self.locks[cpu].lock().unwrap();
        let count = stack.count.load(Ordering::Acquire);
        let below = count.checked_sub(1)?;
        let page = stack.pages.get(usize::try_from(below).ok()?)?.load(Ordering::Relaxed);
        if page + more > limit {
            return None;
        }
        overwrite(stack.count, below);
        Some(page)
    }

    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool {
        let cpu = self.current();
        let Some(stack) = slabs.stack(cpu, number) else { return false };
        let _step = self.locks[cpu].lock().unwrap();
        let count = stack.count.load(Ordering::Relaxed);
        if count >= capacity {
            return false;
        }
        stack.pages[count as usize].store(page, Ordering::Relaxed);
        overwrite(stack.count, count + 1);
        true
    }

    fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64> {
        if self.current() != cpu {
            return None;
        }
        let _step = self.locks[cpu].lock().unwrap();
        let was = count.load(Ordering::Relaxed);
        overwrite(count, Stack::CLOSED);
        (was != Stack::CLOSED).then_some(was)
    }

    fn fence(&self, cpu: usize) {
        drop(self.locks[cpu].lock().unwrap());
    }
}

/// Stores a value, whatever is there. It is an exchange, because loom may order a store before an exchange that came first.
fn overwrite(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::Relaxed);
}
