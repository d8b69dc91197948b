//! The trait of per-CPU steps, which change a CPU's stack completely or not at all.

use super::stack::Stack;

/// Per-CPU steps: no other thread on that CPU can run between the begin and the end of a step, so a step is done
/// completely or not at all. Threads on other CPUs must not access the stack until a [`fence`](Cpus::fence).
///
/// Linux offers such steps to programs as restartable sequences ([`Rseq`](crate::Rseq)), and a kernel can disable
/// preemption. Elsewhere locks do the same ([`Sharded`](crate::Sharded)).
pub trait Cpus: Sync {
    /// The number of CPUs, which are numbered from 0.
    fn count(&self) -> usize;

    /// The CPU that the caller runs on. It may migrate at any time.
    fn current(&self) -> usize;

    /// In one step on `cpu`: removes the page in a stack's `top`, if there is one and that page + `more` is at most `limit`.
    /// `None` also if the step was interrupted, or the caller does not run on `cpu`.
    fn take_top(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64>;

    /// In one step on `cpu`: stores a page in a stack's empty `top`. False if it is not empty, if the step was interrupted, or
    /// if the caller does not run on `cpu`.
    fn put_top(&self, cpu: usize, stack: &Stack, page: u64) -> bool;

    /// Like [`take_top`](Self::take_top), but removes the last of an open stack's other pages.
    fn pop(&self, cpu: usize, stack: &Stack, more: u64, limit: u64) -> Option<u64>;

    /// Like [`put_top`](Self::put_top), but appends to an open stack's other pages. False also if the stack is full.
    fn push(&self, cpu: usize, stack: &Stack, page: u64) -> bool;

    /// In one step on `cpu`: closes an open stack, except its `top`, and returns its number of pages. `None` if the step was
    /// interrupted, or the caller does not run on `cpu`.
    fn close(&self, cpu: usize, stack: &Stack) -> Option<u64>;

    /// Waits until every step of `cpu` that began before the call has ended. The caller then sees the effects of these steps.
    fn fence(&self, cpu: usize);
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::{PercpuStacks, Sharded};

    /// Repeats a step until it is not interrupted.
    fn done<T>(step: impl FnMut() -> Option<T>) -> Option<T> {
        core::iter::repeat_with(step).take(1000).flatten().next()
    }

    /// Checks all steps on the caller's CPU, with a stack of capacity 1.
    fn check(cpus: &impl Cpus) {
        let (cpu, stack) = (cpus.current(), Stack::new(1));
        let put_top = |page| cpus.put_top(cpu, &stack, page).then_some(());
        let push = |page| cpus.push(cpu, &stack, page).then_some(());
        assert_eq!(cpus.take_top(cpu, &stack, 0, u64::MAX), None, "empty");
        assert_eq!(cpus.pop(cpu, &stack, 0, u64::MAX), None, "empty");
        assert_eq!((done(|| put_top(40)), put_top(41)), (Some(()), None));
        assert_eq!((done(|| push(50)), push(51)), (Some(()), None));
        assert_eq!(stack.len(), 2);
        assert_eq!(cpus.take_top(cpu, &stack, 3, 42), None, "above the limit");
        assert_eq!(done(|| cpus.take_top(cpu, &stack, 3, 43)), Some(40));
        assert_eq!(cpus.pop(cpu, &stack, 3, 52), None, "above the limit");
        assert_eq!(done(|| cpus.pop(cpu, &stack, 3, 53)), Some(50));
        assert_eq!(done(|| push(60)), Some(()));
        assert_eq!(done(|| cpus.close(cpu, &stack)), Some(1));
        assert_eq!((cpus.pop(cpu, &stack, 0, u64::MAX), push(61)), (None, None), "closed");
        assert_eq!(stack.closed(1).take(1).collect::<alloc::vec::Vec<_>>(), [60]);
        assert_eq!(stack.len(), 0);
    }

    #[test]
    fn steps_with_locks_are_complete() {
        let cpus = Sharded::new(2, || 1);
        check(&cpus);
        check(&PercpuStacks::sharded());
        assert_eq!(cpus.close(0, &Stack::new(1)), None, "of another CPU");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn steps_with_restartable_sequences_are_complete_and_only_on_their_cpu() {
        use rustix::thread::{CpuSet, sched_setaffinity};
        let Some(cpus) = crate::Rseq::new() else { return };
        let mut here = CpuSet::new();
        here.set(cpus.current());
        assert_eq!(sched_setaffinity(None, &here), Ok(()));
        check(&cpus);
        let host = PercpuStacks::new();
        assert_eq!((host.current(), host.count()), (cpus.current(), cpus.count()));
        check(&host);
        let (elsewhere, stack) = (cpus.current() + 1, Stack::new(2));
        assert!(!cpus.put_top(elsewhere, &stack, 7) && !cpus.push(elsewhere, &stack, 7));
        stack.top.store(7, crate::sync::Ordering::Relaxed);
        stack.closed(0).push(8);
        assert_eq!(cpus.take_top(elsewhere, &stack, 0, u64::MAX), None);
        assert_eq!(cpus.pop(elsewhere, &stack, 0, u64::MAX), None);
        assert_eq!(cpus.close(elsewhere, &stack), None);
        assert_eq!(stack.len(), 2, "steps on another CPU change nothing");
    }
}
