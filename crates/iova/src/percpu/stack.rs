//! A CPU's stack of free ranges of one size.

use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// Value of a stack's count or top while a thread has exclusive access. Every step fails on it: as a signed number it is
/// negative, as an unsigned number above every capacity.
pub(super) const CLOSED: u64 = u64::MAX - 1;
/// Value of an empty top.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// A stack of free ranges of one size, by their first pages.
///
/// Threads on its CPU push and pop in per-CPU steps ([`Cpus`](super::Cpus)). All other access needs the slot's lock and
/// closes the stack first.
#[derive(Debug)]
pub struct Stack {
    /// The topmost page, or [`NO_PAGE`], or [`CLOSED`]. It is apart from the others, because consecutive steps on it don't
    /// depend on each other through a count that each would have to read and write.
    pub(super) top: AtomicU64,
    /// The number of other pages, at most the capacity, or [`CLOSED`].
    pub(super) count: AtomicU64,
    pub(super) pages: Box<[AtomicU64]>,
}

impl Stack {
    /// An empty stack for `capacity` pages.
    pub(super) fn new(capacity: usize) -> Self {
        let pages = (0..capacity).map(|_| AtomicU64::new(0)).collect();
        // With capacity 0 the top is closed too, so that nothing is cached.
        let top = if capacity > 0 { NO_PAGE } else { CLOSED };
        Self { top: AtomicU64::new(top), count: AtomicU64::new(0), pages }
    }

    /// The number of ranges in a stack that is not closed.
    pub(super) fn len(&self) -> u64 {
        let has_top = self.top.load(Ordering::Relaxed) < CLOSED;
        self.count.load(Ordering::Acquire) + u64::from(has_top)
    }

    /// Exclusive access to a closed stack, except its top; `count` is its number of pages when it was closed.
    pub(super) fn closed(&self, count: u64) -> Closed<'_> {
        Closed { stack: self, len: count as usize }
    }
}

/// Exclusive access to a closed stack, except its top. Dropping it opens the stack.
pub(super) struct Closed<'a> {
    stack: &'a Stack,
    len: usize,
}

impl Closed<'_> {
    /// Whether it has no page.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has no room.
    pub(super) fn is_full(&self) -> bool {
        self.len == self.stack.pages.len()
    }

    /// The number of ranges that move at once between a stack and the depot: half of the capacity, so that the next call
    /// finds the stack neither empty nor full.
    pub(super) fn batch(&self) -> usize {
        self.stack.pages.len().div_ceil(2)
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

    /// Removes the last `count` pages, or all if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = u64> {
        let from = self.len.saturating_sub(count);
        let pages = &self.stack.pages[from..self.len];
        self.len = from;
        pages.iter().map(|page| page.load(Ordering::Relaxed))
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
    fn a_closed_stack_pops_only_ranges_up_to_the_limit() {
        let stack = Stack::new(3);
        let mut closed = stack.closed(0);
        assert!(closed.is_empty() && !closed.is_full());
        [10, 20, 30].into_iter().for_each(|page| closed.push(page));
        assert!(closed.is_full() && closed.batch() == 2);
        assert_eq!((closed.pop(4, 32), closed.pop(4, 33)), (None, Some(30)));
        assert_eq!(closed.take(5).collect::<alloc::vec::Vec<_>>(), [10, 20]);
        assert!(closed.is_empty() && closed.pop(1, 99).is_none());
    }
}
