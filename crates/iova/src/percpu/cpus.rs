//! What the per-CPU allocator asks of the machine.

use crate::sync::AtomicU64;

/// How an exchange ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// The word was as expected and has its new value.
    Done,
    /// The word was not as expected, and is as it was.
    Changed,
    /// The caller is not on that CPU; nothing was done.
    Elsewhere,
}

/// What [`Cpus::put`] returns when nothing was done. No word of the allocator has all bits.
pub const NOT_DONE: u64 = u64::MAX;

/// CPUs, and short steps that happen on one of them at once: no other step of the same CPU comes between their beginning and
/// their end. They need not be atomic towards other CPUs, which keep off the words of these steps until a
/// [`fence`](Cpus::fence).
///
/// Linux gives such steps to programs as restartable sequences ([`Rseq`](crate::Rseq)); a kernel has them by disabling
/// preemption; locks do for the rest ([`Sharded`](crate::Sharded)).
pub trait Cpus: Sync {
    /// CPUs are numbered from 0 to one less than this.
    fn count(&self) -> usize;

    /// The CPU the caller is on, or was a moment ago.
    fn current(&self) -> usize;

    /// In one step on `cpu`, if `guard` is `guard_is`: takes the lowest set bit out of `word`. Returns what `word` was: 0
    /// if it had no bit, if the guard differs, if the step was interrupted, or if the caller isn't on `cpu`.
    fn take(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64) -> u64;

    /// In one step on `cpu`, if `guard` is `guard_is`: puts `bits` into `word`. Returns what `word` was, or
    /// [`NOT_DONE`].
    fn put(&self, cpu: usize, guard: &AtomicU64, guard_is: u64, word: &AtomicU64, bits: u64) -> u64;

    /// In one step on `cpu`, atomic also towards other CPUs: `word` becomes `new` if it is `old`.
    fn exchange(&self, cpu: usize, word: &AtomicU64, old: u64, new: u64) -> Exchange;

    /// On return, no step of `cpu` is under way that began before the call; what such steps did is seen by the caller.
    fn fence(&self, cpu: usize);
}
