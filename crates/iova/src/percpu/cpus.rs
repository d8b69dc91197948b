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

    /// On return, no step of `cpu` is in progress that began before the call; what such steps did is seen by the caller.
    fn fence(&self, cpu: usize);
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::Sharded;

    /// Tries until a step is not interrupted.
    fn done<T>(step: impl FnMut() -> Option<T>) -> Option<T> {
        core::iter::repeat_with(step).take(1000).flatten().next()
    }

    /// Steps on a CPU where the caller stays, with one place below the top.
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
    fn steps_by_locks() {
        let cpus = Sharded::new(2, || 1);
        check(&cpus);
        assert_eq!(cpus.close(0, &Stack::new(1)), None, "of another CPU");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn steps_by_restartable_sequences() {
        use rustix::thread::{CpuSet, sched_setaffinity};
        let Some(cpus) = crate::Rseq::new() else { return };
        let mut here = CpuSet::new();
        here.set(cpus.current());
        assert_eq!(sched_setaffinity(None, &here), Ok(()));
        check(&cpus);
        let (elsewhere, stack) = (cpus.current() + 1, Stack::new(2));
        assert!(!cpus.put_top(elsewhere, &stack, 7) && !cpus.push(elsewhere, &stack, 7));
        stack.top.store(7, crate::sync::Ordering::Relaxed);
        stack.closed(0).push(8);
        assert_eq!(cpus.take_top(elsewhere, &stack, 0, u64::MAX), None);
        assert_eq!(cpus.pop(elsewhere, &stack, 0, u64::MAX), None);
        assert_eq!(cpus.close(elsewhere, &stack), None);
        assert_eq!(stack.len(), 2, "nothing was done");
    }
}
