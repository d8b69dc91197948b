//! Per-CPU steps by Linux's restartable sequences, without atomic instructions or locks (crate [`rseq`]).

#![allow(unsafe_code, reason = "the stacks' memory is the allocator's to guarantee")]

use super::cpus::Cpus;
use super::slabs::{PAGES_AT, PER_CPU, STACK_WORDS, Slabs, Stack};
use crate::sync::AtomicU64;
use rseq::Rseq;

/// log2 of the bytes of all stacks of a CPU.
const SHIFT: u32 = (PER_CPU * STACK_WORDS * size_of::<u64>()).ilog2();

const _: () = assert!(
    Stack::CLOSED == rseq::CLOSED
        && PER_CPU * STACK_WORDS * size_of::<u64>() == 1 << SHIFT
        && PAGES_AT == rseq::VALUES_AT,
    "the sequences contain these numbers"
);

// SAFETY: the steps are restartable sequences, which the kernel abandons when their thread is preempted or migrated. `try_pop` loads
// the count with Acquire, and steps fail on CLOSED. `Rseq` never changes its number of CPUs. `Rseq::unregistered`, whose sequences
// nobody abandons, promises one thread.
unsafe impl Cpus for Rseq {
    fn count(&self) -> usize {
        self.cpus()
    }

    #[inline(always)]
    fn current(&self) -> usize {
        Rseq::current(self)
    }

    #[inline(always)]
    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64> {
        // SAFETY: the stack lies within `slabs` for each of their CPUs, because `number` is below `PER_CPU`: only the allocator has
        // `slabs`, and implementations of `Cpus` pass its arguments on. For the same reason the count is CLOSED, or at most the
        // number of the stack's pages. The allocator relies on pages, and stores them, only in a stack that it closed (`Percpu::close`).
        unsafe { self.try_pop::<SHIFT>(first(slabs, number), slabs.cpus(), more, limit) }
    }

    #[inline(always)]
    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool {
        // SAFETY: as in `pop`. The capacity is at most the number of the stack's pages.
        unsafe { self.try_push::<SHIFT>(first(slabs, number), slabs.cpus(), capacity, page) }
    }

    fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64> {
        // SAFETY: as in `pop`, with the count of a borrowed stack. It is never closed before: the caller holds the lock that is
        // needed to close it.
        unsafe { self.try_close(cpu, count.as_ptr().cast()) }
    }

    fn fence(&self, cpu: usize) {
        Rseq::fence(self, cpu);
    }
}

/// The stack of CPU 0 with a number.
#[inline(always)]
fn first(slabs: &Slabs, number: usize) -> *mut AtomicU64 {
    slabs.base().wrapping_add(number * STACK_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allocator, Percpu, Request, Space};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use std::sync::atomic::{AtomicBool, Ordering};

    const COLLECTIONS: usize = 60_000;

    /// Lets the calling thread run only on this CPU.
    fn pin(cpu: usize) {
        let mut one = CpuSet::new();
        one.set(cpu);
        sched_setaffinity(None, &one).unwrap();
    }

    /// Repeats a step until it is not interrupted.
    fn done<T>(step: impl FnMut() -> Option<T>) -> Option<T> {
        std::iter::repeat_with(step).take(1000).flatten().next()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn steps_are_complete_and_only_on_their_cpu() {
        let Ok(cpus) = Rseq::new() else { return };
        let allowed = sched_getaffinity(None).unwrap();
        let (cpu, number, slabs) = (cpus.current(), 5, Slabs::new(cpus.count()));
        pin(cpu);
        let stack = slabs.stack(cpu, number).unwrap();
        let push = |page| Cpus::push(&cpus, &slabs, number, 2, page).then_some(());
        let pop = |more, limit| Cpus::pop(&cpus, &slabs, number, more, limit);
        assert_eq!(pop(0, u64::MAX), None, "empty");
        assert_eq!((done(|| push(40)), done(|| push(50)), push(51)), (Some(()), Some(()), None));
        assert_eq!((stack.len(), stack.pages[1].load(Ordering::Relaxed)), (2, 50));
        assert_eq!(pop(3, 52), None, "above the limit");
        assert_eq!(
            (done(|| pop(3, 53)), done(|| pop(0, u64::MAX)), pop(0, u64::MAX)),
            (Some(50), Some(40), None)
        );
        assert_eq!(done(|| push(60)), Some(()));
        assert_eq!(Cpus::close(&cpus, cpu + 1, stack.count), None, "of another CPU");
        assert_eq!(done(|| Cpus::close(&cpus, cpu, stack.count)), Some(1));
        assert_eq!((pop(0, u64::MAX), push(61)), (None, None), "closed");
        assert_eq!(stack.closed(1, 2).oldest(1).collect::<Vec<_>>(), [60]);
        // A thread on a CPU that has no stacks.
        let none = Slabs::new(0);
        assert!(!Cpus::push(&cpus, &none, 0, 2, 7) && Cpus::pop(&cpus, &none, 0, 0, u64::MAX).is_none());
        sched_setaffinity(None, &allowed).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn each_cpu_has_its_number() {
        let Ok(cpus) = Rseq::new() else { return };
        let allowed = sched_getaffinity(None).unwrap();
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            pin(cpu);
            assert_eq!(Cpus::current(&cpus), cpu);
            assert!(cpu < Cpus::count(&cpus), "{cpu}");
        }
        sched_setaffinity(None, &allowed).unwrap();
        assert_eq!(Cpus::count(&cpus), cpus.cpus());
    }

    /// Each step would go on until it is told to end, which is after the fence.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no assembly")]
    fn a_fence_ends_the_step_of_another_cpu() {
        let Ok(cpus) = Rseq::new() else { return };
        let allowed = sched_getaffinity(None).unwrap();
        let mut numbers = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        let (Some(here), Some(there)) = (numbers.next(), numbers.next()) else { return };
        pin(here);
        let (begun, end) = (AtomicU64::new(0), AtomicU64::new(0));
        let wait_for = |word: &AtomicU64, step| {
            while word.load(Ordering::Acquire) != step {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(there);
                let is_done = [1, 2, 3, 4].map(|step| {
                    let is_done = cpus.wait_in_step(&begun, &end, step);
                    // If it was interrupted before it began, nobody would tell it to end.
                    begun.store(step, Ordering::Release);
                    wait_for(&end, step);
                    is_done
                });
                assert_eq!(is_done, [false; 4]);
            });
            for step in 1..=4 {
                wait_for(&begun, step);
                Cpus::fence(&cpus, there);
                end.store(step, Ordering::Release);
            }
        });
        sched_setaffinity(None, &allowed).unwrap();
    }

    /// One thread allocates and frees all the time, while another empties its CPU's stack.
    #[test]
    fn ranges_collected_from_a_cpu_during_its_steps_are_collected_once() {
        let Ok(cpus) = Rseq::new() else { return };
        let space = Space::new(1, 1 << 16);
        let allocator = Percpu::checked(&space, 0, cpus).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let page = Request::new(1, space.last);
                while !done.load(Ordering::Relaxed) {
                    let firsts = [(); 3].map(|()| allocator.allocate(&page).unwrap());
                    assert!(firsts[0] != firsts[1] && firsts[1] != firsts[2] && firsts[2] != firsts[0]);
                    firsts.iter().for_each(|first| allocator.free(page.range(*first)).unwrap());
                }
            });
            for _ in 0..COLLECTIONS {
                allocator.collect(space.last);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(allocator.allocate(&Request::new(1 << 16, space.last)), Ok(1));
    }
}
