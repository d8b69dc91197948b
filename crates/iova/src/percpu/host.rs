//! The best that this machine has for steps on a CPU.

use super::cpus::Cpus;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use super::rseq::Rseq;
use super::sharded::Sharded;
use super::stack::Stack;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Restartable sequences where kernel, C library and architecture have them, else locks.
#[derive(Debug)]
pub enum Host {
    /// See [`Rseq`].
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Rseq(Rseq),
    /// See [`Sharded`].
    Sharded(Sharded),
}

impl Host {
    /// Looks at the machine.
    pub fn new() -> Self {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if let Some(rseq) = Rseq::new() {
            return Self::Rseq(rseq);
        }
        Self::sharded()
    }

    /// Locks, whatever the machine has.
    pub fn sharded() -> Self {
        let shards = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Sharded(Sharded::new(shards, thread_number))
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

/// Threads in order of their first call: shards are shared evenly.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

/// The same of whichever it is.
macro_rules! either {
    ($host:expr, $cpus:ident => $result:expr) => {
        match $host {
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Host::Rseq($cpus) => $result,
            Host::Sharded($cpus) => $result,
        }
    };
}

impl Cpus for Host {
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
