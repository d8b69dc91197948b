//! Lazy invalidation: bus addresses wait in queues until one invalidation has made them all safe to use again.
//!
//! As Linux's flush queue (`drivers/iommu/dma-iommu.c`): a ring for each CPU; when it is full, or when the timer runs out,
//! everything is invalidated. An entry is let go after an invalidation that *began* after it was queued. Until then an
//! adapter may still reach the memory that was mapped there.

use crate::DmaCounters;
use iova::Range;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Entries of a ring, of which one stays empty in Linux's arithmetic (`IOVA_DEFAULT_FQ_SIZE`).
const RING: usize = 256 - 1;

/// Ranges that are unmapped but not yet invalidated.
pub struct FlushQueue {
    rings: Box<[Mutex<VecDeque<Entry>>]>,
    cpu: Box<dyn Fn() -> usize + Send + Sync>,
    /// Invalidations of everything that were begun, and that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    range: Range,
    /// Invalidations begun when it was queued.
    begun: u64,
}

/// Whom the queue asks for what it does not do itself.
pub(crate) trait Flusher {
    /// Makes the IOMMU forget all addresses.
    fn invalidate_all(&self, counters: &mut DmaCounters);
    /// Lets a range be used again.
    fn free(&self, range: Range, counters: &mut DmaCounters);
}

impl FlushQueue {
    /// How long the kernel lets an entry wait before its timer flushes. Whoever uses a queue calls
    /// [`Domain::flush`](crate::Domain::flush) as often.
    pub const INTERVAL_NS: u64 = 10_000_000;

    /// With a ring for each of `cpus`; `cpu` says on which one it is called, and is taken modulo their number.
    pub fn new(cpus: usize, cpu: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        let rings = (0..cpus.max(1)).map(|_| Mutex::default()).collect();
        Self { rings, cpu: Box::new(cpu), begun: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// How many ranges wait.
    pub fn waiting(&self) -> usize {
        self.rings.iter().map(|ring| locked(ring).len()).sum()
    }

    /// Puts a range that was just unmapped behind the others of this CPU.
    pub(crate) fn queue(&self, range: Range, flusher: &impl Flusher, counters: &mut DmaCounters) {
        let mut ring = locked(&self.rings[(self.cpu)() % self.rings.len()]);
        self.release(&mut ring, flusher, counters);
        if ring.len() >= RING {
            self.invalidate(flusher, counters);
            self.release(&mut ring, flusher, counters);
        }
        ring.push_back(Entry { range, begun: self.begun.load(Ordering::SeqCst) });
    }

    /// What the timer does: invalidates everything and empties the rings of all CPUs, if there is anything in them.
    pub(crate) fn flush(&self, flusher: &impl Flusher, counters: &mut DmaCounters) {
        if self.waiting() == 0 {
            return;
        }
        self.invalidate(flusher, counters);
        for ring in &self.rings {
            self.release(&mut locked(ring), flusher, counters);
        }
    }

    fn invalidate(&self, flusher: &impl Flusher, counters: &mut DmaCounters) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        flusher.invalidate_all(counters);
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets go what was queued before as many invalidations began as have ended: then one of those began after it.
    fn release(&self, ring: &mut VecDeque<Entry>, flusher: &impl Flusher, counters: &mut DmaCounters) {
        let ended = self.ended.load(Ordering::SeqCst);
        while let Some(entry) = ring.pop_front_if(|entry| entry.begun < ended) {
            flusher.free(entry.range, counters);
        }
    }
}

fn locked(ring: &Mutex<VecDeque<Entry>>) -> impl std::ops::DerefMut<Target = VecDeque<Entry>> + '_ {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for FlushQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FlushQueue").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[derive(Default)]
    struct Book {
        invalidations: Cell<u32>,
        freed: RefCell<Vec<u64>>,
    }

    impl Flusher for Book {
        fn invalidate_all(&self, _bill: &mut DmaCounters) {
            self.invalidations.set(self.invalidations.get() + 1);
        }

        fn free(&self, range: Range, _bill: &mut DmaCounters) {
            self.freed.borrow_mut().push(range.first);
        }
    }

    fn page(first: u64) -> Range {
        Range { first, pages: 1 }
    }

    #[test]
    fn a_full_ring_costs_one_invalidation() {
        let (queue, book, mut counters) = (FlushQueue::new(2, || 0), Book::default(), DmaCounters::default());
        for first in 0..RING as u64 {
            queue.queue(page(first), &book, &mut counters);
        }
        assert_eq!((book.invalidations.get(), queue.waiting()), (0, RING));
        queue.queue(page(1000), &book, &mut counters);
        assert_eq!((book.invalidations.get(), queue.waiting()), (1, 1));
        assert_eq!(*book.freed.borrow(), (0..RING as u64).collect::<Vec<_>>());
    }

    /// A ring that is full costs those of other CPUs nothing, and CPUs beyond the rings share them.
    #[test]
    fn each_cpu_has_its_own_ring() {
        let cpu = std::sync::Arc::new(AtomicU64::new(1));
        let on = std::sync::Arc::clone(&cpu);
        let queue = FlushQueue::new(2, move || on.load(Ordering::Relaxed) as usize);
        let (book, mut counters) = (Book::default(), DmaCounters::default());
        for first in 0..RING as u64 {
            queue.queue(page(first), &book, &mut counters);
        }
        cpu.store(0, Ordering::Relaxed);
        queue.queue(page(1000), &book, &mut counters);
        assert_eq!((book.invalidations.get(), queue.waiting()), (0, RING + 1));
        cpu.store(5, Ordering::Relaxed);
        queue.queue(page(1001), &book, &mut counters);
        assert_eq!((book.invalidations.get(), queue.waiting()), (1, 2));
    }

    #[test]
    fn the_timer_empties_all_rings_and_is_idle_where_nothing_waits() {
        let cpu = std::sync::Arc::new(AtomicU64::new(0));
        let on = std::sync::Arc::clone(&cpu);
        let queue = FlushQueue::new(2, move || on.load(Ordering::Relaxed) as usize);
        let (book, mut counters) = (Book::default(), DmaCounters::default());
        queue.queue(page(1), &book, &mut counters);
        cpu.store(1, Ordering::Relaxed);
        queue.queue(page(2), &book, &mut counters);
        queue.flush(&book, &mut counters);
        queue.flush(&book, &mut counters);
        assert_eq!((book.invalidations.get(), queue.waiting()), (1, 0));
        assert_eq!(*book.freed.borrow(), [1, 2]);
    }

    #[test]
    fn what_is_queued_while_everything_is_invalidated_waits_for_the_next() {
        let (queue, book, mut counters) = (FlushQueue::new(1, || 0), Book::default(), DmaCounters::default());
        queue.begun.store(1, Ordering::SeqCst);
        queue.queue(page(7), &book, &mut counters);
        queue.ended.store(1, Ordering::SeqCst);
        queue.queue(page(8), &book, &mut counters);
        assert!(book.freed.borrow().is_empty());
        queue.flush(&book, &mut counters);
        assert_eq!(*book.freed.borrow(), [7, 8]);
    }
}
