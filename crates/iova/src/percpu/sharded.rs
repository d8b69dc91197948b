//! No per-CPU steps: every access to a stack takes its lock.

#![allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]

use super::cpus::Cpus;
use super::slabs::Slabs;
use crate::sync::{AtomicU64, Ordering};

/// Shards for each thread that can run at a time. If there are more threads, few of them wait for one that does not run.
#[cfg(feature = "std")]
const SHARDS_PER_CPU: usize = 4;

/// Stacks by shard, for hosts without restartable sequences. Shards take the place of CPUs: a thread belongs to one shard on
/// whichever CPU it runs.
#[derive(Debug, Clone, Copy)]
pub struct Sharded {
    count: usize,
    current: fn() -> usize,
}

impl Sharded {
    /// Creates `count` shards. `current` returns the caller's shard, modulo `count`.
    pub fn new(count: usize, current: fn() -> usize) -> Self {
        Self { count: count.max(1), current }
    }

    /// Four times as many shards as threads can run at a time. Threads are distributed over them in the order of their first calls.
    #[cfg(feature = "std")]
    pub fn by_thread() -> Self {
        Self::new(SHARDS_PER_CPU * std::thread::available_parallelism().map_or(1, usize::from), thread_number)
    }
}

/// The number of the calling thread, in the order of first calls.
#[cfg(feature = "std")]
fn thread_number() -> usize {
    use std::sync::atomic::AtomicUsize;
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

// SAFETY: it has no steps, and every access is under the stack's lock.
unsafe impl Cpus for Sharded {
    fn count(&self) -> usize {
        self.count
    }

    fn current(&self) -> usize {
        (self.current)() % self.count
    }

    fn pop(&self, _slabs: &Slabs, _number: usize, _more: u64, _limit: u64) -> Option<u64> {
        None
    }

    fn push(&self, _slabs: &Slabs, _number: usize, _capacity: u64, _page: u64) -> bool {
        false
    }

    /// The caller's lock is enough, because there are no steps.
    fn close(&self, _cpu: usize, count: &AtomicU64) -> Option<u64> {
        Some(count.load(Ordering::Relaxed))
    }

    fn fence(&self, _cpu: usize) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_have_shards_of_their_own() {
        let shards = Sharded::by_thread();
        assert_eq!(shards.count(), 4 * std::thread::available_parallelism().map_or(1, usize::from));
        // A thread's number is one higher than that of the thread before, or more if other tests start threads too.
        let numbers = [0; 3].map(|_| {
            let number = move || (thread_number(), shards.current());
            let (number, current) = std::thread::spawn(number).join().unwrap();
            assert_eq!(current, number % shards.count());
            number
        });
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    }

    /// Without a closed mark, for which nobody looks: the caller's lock keeps others out.
    #[test]
    fn a_stack_is_closed_at_once_and_left_as_it_is() {
        let count = AtomicU64::new(5);
        assert_eq!(Sharded::new(1, || 0).close(0, &count), Some(5));
        assert_eq!(count.load(Ordering::Relaxed), 5);
    }
}
