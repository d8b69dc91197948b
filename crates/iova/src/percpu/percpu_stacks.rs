//! The best implementation of per-CPU steps that the host supports.

use super::cpus::Cpus;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use super::rseq::Rseq;
use super::sharded::Sharded;
use super::stack::Stack;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Restartable sequences if the kernel, the C library and the architecture support them, else locks.
#[derive(Debug)]
pub enum PercpuStacks {
    /// Restartable sequences.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Rseq(Rseq),
    /// Locks.
    Sharded(Sharded),
}

impl PercpuStacks {
    /// Selects the implementation for this host.
    pub fn new() -> Self {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if let Some(rseq) = Rseq::new() {
            return Self::Rseq(rseq);
        }
        Self::sharded()
    }

    /// Locks, also on hosts with restartable sequences.
    pub fn sharded() -> Self {
        let shards = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Sharded(Sharded::new(shards, thread_number))
    }
}

impl Default for PercpuStacks {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of the calling thread, in the order of first calls, which distributes threads evenly over shards.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// Calls the same function of either implementation.
macro_rules! either {
    ($host:expr, $cpus:ident => $result:expr) => {
        match $host {
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            PercpuStacks::Rseq($cpus) => $result,
            PercpuStacks::Sharded($cpus) => $result,
        }
    };
}

impl Cpus for PercpuStacks {
    fn count(&self) -> usize {
        either!(self, cpus => cpus.count())
    }

    #[inline(always)]
    fn current(&self) -> usize {
        either!(self, cpus => cpus.current())
    }

    #[inline(always)]
    fn take_top(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        either!(self, cpus => cpus.take_top(cpu, stack, more, limit))
    }

    #[inline(always)]
    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        either!(self, cpus => cpus.put_top(cpu, stack, page))
    }

    #[inline]
    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64> {
        either!(self, cpus => cpus.pop(cpu, stack, more, limit))
    }

    #[inline]
    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool {
        either!(self, cpus => cpus.push(cpu, stack, page))
    }

    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64> {
        either!(self, cpus => cpus.close(cpu, stack))
    }

    fn fence(&self, cpu: usize) {
        either!(self, cpus => cpus.fence(cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_shards_of_their_own() {
        let host = PercpuStacks::sharded();
        assert!(matches!(host, PercpuStacks::Sharded(_)));
        assert_eq!(host.count(), std::thread::available_parallelism().map_or(1, usize::from));
        // A thread's number is one higher than that of the thread before, or more if other tests start threads too.
        let numbers = [0; 3].map(|_| {
            let number = || (thread_number(), host.current());
            let (number, current) = std::thread::scope(|scope| scope.spawn(number).join().unwrap());
            assert_eq!(current, number % host.count());
            number
        });
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    }
}
