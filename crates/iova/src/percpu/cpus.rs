//! The trait of per-CPU steps, which change a CPU's stack completely or not at all.

#![allow(unsafe_code, reason = "implementations promise what the compiler can't check")]

use super::slabs::Slabs;
use crate::sync::AtomicU64;

/// Per-CPU steps: no other thread on that CPU can run between the begin and the end of a step, so a step is done
/// completely or not at all. Threads on other CPUs must not rely on what they load from the stack, nor store to it, until a
/// [`fence`](Cpus::fence).
///
/// Linux offers such steps to programs as restartable sequences ([`Rseq`](crate::Rseq)), and a kernel can disable
/// preemption. Without steps every access takes a lock ([`Sharded`](crate::Sharded)). The allocator calls `close` and `fence`
/// under the lock of the stack.
///
/// # Safety
/// Steps must do what is said of them, on the current CPU's stack, and change nothing else there. Steps of one CPU see each
/// other, and all that their threads did before. `pop` loads the count with Acquire: another CPU may have stored the pages below
/// it, and then the count (Release). The store of a page by `push` comes after its load of the count, on which it depends. No other access
/// needs an order, since other CPUs rely on pages only behind a `fence`. An implementation that passes a call on to another
/// one must pass its arguments on as they are.
pub unsafe trait Cpus: Sync {
    /// The number of CPUs, which are numbered from 0. It never changes.
    fn count(&self) -> usize;

    /// The CPU that the caller runs on. It may migrate at any time.
    fn current(&self) -> usize;

    /// In one step: removes the last page of the current CPU's stack with a number, if it is open and has one, and page +
    /// `more` is at most `limit`. `None` also if the step was interrupted, or there are no steps.
    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64>;

    /// In one step: appends a page to the current CPU's stack with a number. False if it is closed or has `capacity` pages, if
    /// the step was interrupted, or if there are no steps.
    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool;

    /// In one step on `cpu`: closes an open stack by its count, which is returned. `None` if the step was interrupted, or the
    /// caller does not run on `cpu`.
    fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64>;

    /// Waits until every step of `cpu` that began before the call has ended. The caller then sees the effects of these steps.
    fn fence(&self, cpu: usize);
}
