//! A CPU's free ranges of one size.

use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// What a count or the top of a stack is while a thread has it for itself. No step goes on with it: as a signed number it is
/// negative, as an unsigned one above every capacity.
pub(super) const CLOSED: u64 = u64::MAX - 1;
/// The top of a stack without one.
pub(super) const NO_PAGE: u64 = u64::MAX;

/// First pages of free ranges of one size, of which the threads of a CPU take and add the topmost.
///
/// Whoever takes or adds does so in a step on that CPU ([`Cpus`](super::Cpus)), or closes it first, under its slot's lock.
#[derive(Debug)]
pub struct Stack {
    /// A page that lies above the others, or [`NO_PAGE`], or [`CLOSED`]. One that comes and goes here leaves no work for the
    /// next step to wait for: a count would be read, changed and written by each.
    pub(super) top: AtomicU64,
    /// How many others there are, or [`CLOSED`]. Never more than there is room for.
    pub(super) count: AtomicU64,
    pub(super) pages: Box<[AtomicU64]>,
}

impl Stack {
    pub(super) fn new(capacity: usize) -> Self {
        let pages = (0..capacity).map(|_| AtomicU64::new(0)).collect();
        // Where nothing is kept, nothing comes to the top either.
        let top = if capacity > 0 { NO_PAGE } else { CLOSED };
        Self { top: AtomicU64::new(top), count: AtomicU64::new(0), pages }
    }

    /// How many ranges are in it. It is not closed.
    pub(super) fn len(&self) -> u64 {
        let has_top = self.top.load(Ordering::Relaxed) < CLOSED;
        self.count.load(Ordering::Acquire) + u64::from(has_top)
    }

    /// The stack, but for its top, as one that nobody else touches: `count` is what it had when it was closed.
    pub(super) fn closed(&self, count: u64) -> Closed<'_> {
        Closed { stack: self, len: count as usize }
    }
}

/// A stack that a thread has for itself, but for its top, until it drops this.
pub(super) struct Closed<'a> {
    stack: &'a Stack,
    len: usize,
}

impl Closed<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn is_full(&self) -> bool {
        self.len == self.stack.pages.len()
    }

    /// How many move at once between a CPU and what all share: half of a stack, so that it neither runs dry nor over
    /// with the next call.
    pub(super) fn batch(&self) -> usize {
        self.stack.pages.len().div_ceil(2)
    }

    /// Adds a page; the stack must not be full.
    pub(super) fn push(&mut self, page: u64) {
        self.stack.pages[self.len].store(page, Ordering::Relaxed);
        self.len += 1;
    }

    /// Takes the topmost page, if a range that long ends at or below the limit.
    pub(super) fn pop(&mut self, pages: u64, limit: u64) -> Option<u64> {
        let top = self.stack.pages[..self.len].last()?.load(Ordering::Relaxed);
        let fits = top + (pages - 1) <= limit;
        self.len -= usize::from(fits);
        fits.then_some(top)
    }

    /// Takes the `count` topmost pages, or all if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = u64> {
        let from = self.len.saturating_sub(count);
        let pages = &self.stack.pages[from..self.len];
        self.len = from;
        pages.iter().map(|page| page.load(Ordering::Relaxed))
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // With the acquiring load of those whose steps take what is in it.
        self.stack.count.store(self.len as u64, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_closed_stack_gives_its_topmost_up_to_the_limit() {
        let stack = Stack::new(3);
        let mut closed = stack.closed(0);
        [10, 20, 30].into_iter().for_each(|page| closed.push(page));
        assert!(closed.is_full() && closed.batch() == 2);
        assert_eq!((closed.pop(4, 32), closed.pop(4, 33)), (None, Some(30)));
        assert_eq!(closed.take(5).collect::<alloc::vec::Vec<_>>(), [10, 20]);
        assert!(closed.is_empty() && closed.pop(1, 99).is_none());
    }
}
