//! CPUs, and steps that happen on one of them or not at all.

use super::stack::Stack;

/// Steps on a CPU, each of which is done wholly or not at all: no other thread of that CPU comes in between. Other CPUs may, but
/// those keep off until a [`fence`](Cpus::fence).
///
/// Linux gives such steps to programs as restartable sequences ([`Rseq`](crate::Rseq)); a kernel has them by disabling
/// preemption; locks do for the rest ([`Sharded`](crate::Sharded)).
pub trait Cpus: Sync {
    /// CPUs are numbered from 0 to one less than this.
    fn count(&self) -> usize;

    /// The CPU the caller is on, or was a moment ago.
    fn current(&self) -> usize;

    /// In one step on `cpu`: takes the page on top of a stack, if there is one and that page + `more` is `limit` at most. Nothing
    /// also if the step was interrupted, or if the caller isn't on `cpu`.
    fn take_top(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64>;

    /// In one step on `cpu`: puts a page on top of a stack where there is none. False if there is one, and as above.
    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool;

    /// As [`take_top`](Self::take_top), the topmost page below the top of an open stack.
    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64>;

    /// As [`put_top`](Self::put_top), to an open stack below its top. False if there is no room.
    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool;

    /// In one step on `cpu`: closes an open stack but for its top, and says how many pages it has. Nothing if the step was interrupted or the
    /// caller isn't on `cpu`.
    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64>;

    /// On return, no step of `cpu` is under way that began before the call; what such steps did is seen by the caller.
    fn fence(&self, cpu: usize);
}
