//! The stacks of free ranges of all CPUs.

#![allow(unsafe_code, reason = "restartable sequences compute addresses in this memory")]

use super::shape::{CLASSES, STACK_MAX};
use crate::sync::{AtomicU64, Ordering};
use crate::zeros::zero_words;
use alloc::boxed::Box;
use core::ptr::NonNull;

/// Stacks of a CPU: two zones of 16, of which a zone uses one per class. A power of two, so that addresses are computed by
/// shifts.
pub(super) const PER_CPU: usize = 32;
const PER_ZONE: usize = 16;
/// 64-bit words of a stack: its count, unused ones up to [`PAGES_AT`], and its pages.
pub(super) const STACK_WORDS: usize = if cfg!(loom) { 2 + STACK_MAX as usize } else { 128 };
/// The word of a stack's lowest page.
pub(super) const PAGES_AT: usize = 2;
/// Words of a cache line. Stacks begin at one, so that a stack with few pages has them in the line of its count.
const LINE_WORDS: usize = 8;

const _: () = assert!(CLASSES <= PER_ZONE && PAGES_AT + STACK_MAX as usize <= STACK_WORDS);

/// The number of a CPU's stack for a zone (0 or 1) and a class.
#[inline(always)]
pub(super) fn stack_number(zone: usize, class: usize) -> usize {
    zone * PER_ZONE + class
}

/// Stacks of free ranges, 32 for each CPU. The kernel provides memory only for those that are used.
#[derive(Debug)]
#[repr(C)]
pub struct Slabs {
    /// The first stack: of `words`, the first that begins at a cache line.
    base: NonNull<AtomicU64>,
    cpus: usize,
    /// What was allocated.
    words: NonNull<[AtomicU64]>,
}

// SAFETY: `words` are owned, and atomics may be shared and sent.
unsafe impl Send for Slabs {}
// SAFETY: as above.
unsafe impl Sync for Slabs {}

impl Drop for Slabs {
    fn drop(&mut self) {
        // SAFETY: `new` made it of a box, which has no other owner.
        drop(unsafe { Box::from_raw(self.words.as_ptr()) });
    }
}

impl Slabs {
    /// Empty stacks of this number of CPUs.
    pub(super) fn new(cpus: usize) -> Self {
        let words = NonNull::from(Box::leak(zero_words(cpus * PER_CPU * STACK_WORDS + LINE_WORDS)));
        let first = words.cast::<AtomicU64>();
        let misaligned = (first.as_ptr() as usize / size_of::<u64>()) % LINE_WORDS;
        // SAFETY: there are at least `LINE_WORDS` words.
        let base = unsafe { first.add((LINE_WORDS - misaligned) % LINE_WORDS) };
        Self { base, cpus, words }
    }

    /// The number of CPUs.
    #[cfg(all(feature = "std", not(loom)))]
    #[inline(always)]
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    /// The stack with a number on a CPU. `None` if a number is too large.
    #[inline]
    pub fn stack(&self, cpu: usize, number: usize) -> Option<Stack<'_>> {
        if cpu >= self.cpus || number >= PER_CPU {
            return None;
        }
        let from = (cpu * PER_CPU + number) * STACK_WORDS;
        // SAFETY: `new` allocated as many words from `base` on as all CPUs' stacks have, and they live as long as `self`.
        let words = unsafe { core::slice::from_raw_parts(self.base.as_ptr().add(from), STACK_WORDS) };
        words.split_first().map(|(count, rest)| Stack { count, pages: &rest[PAGES_AT - 1..] })
    }

    /// The first word of the first CPU's first stack.
    #[cfg(all(feature = "std", not(loom)))]
    #[inline(always)]
    pub(super) fn base(&self) -> *mut AtomicU64 {
        self.base.as_ptr()
    }

    /// Memory of the stacks that were used, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let stacks =
            (0..self.cpus).flat_map(|cpu| (0..PER_CPU).filter_map(move |number| self.stack(cpu, number)));
        let used = stacks.filter(|stack| stack.is_used()).count();
        (used * STACK_WORDS * size_of::<u64>()) as u64
    }
}

/// A CPU's stack of free ranges of one size, by their first pages.
///
/// Threads on its CPU push and pop in per-CPU steps ([`Cpus`](super::Cpus)). All other access needs the stack's lock and
/// closes the stack first, but for estimates, which load values at any time and rely on none.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    /// The number of pages, at most the capacity, or [`Stack::CLOSED`].
    pub count: &'a AtomicU64,
    /// Room for the largest capacity. Those below the count are in the stack.
    pub pages: &'a [AtomicU64],
}

impl<'a> Stack<'a> {
    /// Value of the count while a thread has exclusive access. Every step must fail on it: as a signed number it is negative,
    /// as an unsigned number above every capacity.
    pub const CLOSED: u64 = u64::MAX - 1;

    /// The number of ranges in a stack that is not closed.
    pub(super) fn len(self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether a page was ever stored, as an estimate. A first page 0 counts as none.
    fn is_used(self) -> bool {
        self.pages.first().is_some_and(|page| page.load(Ordering::Relaxed) != 0)
    }

    /// Exclusive access to a closed stack; `count` is its number of pages when it was closed.
    pub(super) fn closed(self, count: u64, capacity: u64) -> Closed<'a> {
        Closed { stack: self, len: count as usize, capacity: capacity as usize }
    }
}

/// Exclusive access to a closed stack. Dropping it opens the stack.
pub(super) struct Closed<'a> {
    stack: Stack<'a>,
    len: usize,
    capacity: usize,
}

impl Closed<'_> {
    /// Whether it has no page.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has no room.
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.capacity
    }

    /// Adds a page; the stack must not be full.
    pub(super) fn push(&mut self, page: u64) {
        self.stack.pages[self.len].store(page, Ordering::Relaxed);
        self.len += 1;
    }

    /// Pops the last page, if a range of `pages` from there ends at or below the limit.
    pub(super) fn pop(&mut self, pages: u64, limit: u64) -> Option<u64> {
        let top = self.stack.pages[..self.len].last()?.load(Ordering::Relaxed);
        let fits = top + (pages - 1) <= limit;
        self.len -= usize::from(fits);
        fits.then_some(top)
    }

    /// Up to `count` pages that have been in the stack for longest.
    pub(super) fn oldest(&self, count: usize) -> impl Iterator<Item = u64> {
        self.stack.pages[..count.min(self.len)].iter().map(|page| page.load(Ordering::Relaxed))
    }

    /// Removes the [`oldest`](Self::oldest) pages.
    pub(super) fn remove_oldest(&mut self, count: usize) {
        let left = self.len - count.min(self.len);
        for (to, from) in self.stack.pages.iter().zip(&self.stack.pages[self.len - left..self.len]) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.len = left;
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Release: makes the pages visible to steps; pairs with the Acquire loads of the count.
        self.stack.count.store(self.len as u64, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_apart_and_begin_at_cache_lines() {
        let slabs = Slabs::new(3);
        let address = |cpu, number| core::ptr::from_ref(slabs.stack(cpu, number).unwrap().count).addr();
        assert_eq!((address(0, 0) % 64, address(0, 0)), (0, slabs.base().addr()));
        assert_eq!(address(0, 1) - address(0, 0), 1 << 10);
        assert_eq!(address(2, 5) - address(0, 5), 2 << 15);
        assert!(slabs.stack(3, 0).is_none() && slabs.stack(0, PER_CPU).is_none());
        let stack = slabs.stack(2, PER_CPU - 1).unwrap();
        assert_eq!(stack.pages.len(), STACK_MAX as usize);
        assert_eq!(slabs.memory_bytes(), 0);
        stack.closed(0, STACK_MAX).push(7);
        assert_eq!(slabs.memory_bytes(), 1 << 10);
    }

    #[test]
    fn a_closed_stack_pops_only_ranges_up_to_the_limit() {
        let slabs = Slabs::new(1);
        let mut closed = slabs.stack(0, 0).unwrap().closed(0, 3);
        assert!(closed.is_empty() && !closed.is_full());
        [10, 20, 30].into_iter().for_each(|page| closed.push(page));
        assert!(closed.is_full());
        assert_eq!((closed.pop(4, 32), closed.pop(4, 33)), (None, Some(30)));
        [30, 40, 50].into_iter().for_each(|page| closed.push(page));
        let oldest = |closed: &Closed<'_>, count| closed.oldest(count).collect::<alloc::vec::Vec<_>>();
        assert_eq!(oldest(&closed, 2), [10, 20]);
        closed.remove_oldest(2);
        assert_eq!(oldest(&closed, 9), [30, 40, 50]);
        closed.remove_oldest(9);
        assert!(closed.is_empty() && closed.pop(1, 99).is_none());
    }
}
