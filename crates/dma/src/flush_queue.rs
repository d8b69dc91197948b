//! Lazy invalidation: unmapped bus addresses wait in a flush queue until the IOTLB has been invalidated.
//!
//! As in Linux (`drivers/iommu/dma-iommu.c`): one ring per CPU. When a ring is full or the timer expires, the whole
//! IOTLB is invalidated. An entry is freed after an invalidation that *began* after the entry was queued. Until then
//! an adapter may still reach the memory.

use crate::{DmaCounters, Domain};
use flush_thread::FlushThread;
use iova::{Range, host_cpus};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{OnceLock, PoisonError, Weak};
use sync::{AtomicU64, Mutex, Ordering, fence};

mod flush_thread;
#[cfg(all(test, loom))]
mod orders;
mod sync;

/// Usable entries of a ring; Linux leaves one empty (`IOVA_DEFAULT_FQ_SIZE`).
#[cfg(not(loom))]
const RING: usize = 256 - 1;
/// Few, so that all orders of threads can be tried with a ring that is full.
#[cfg(loom)]
const RING: usize = 1;

/// Ranges that are unmapped but not yet invalidated: a ring of 255 for each CPU, as in Linux. An unmap that finds its ring full
/// invalidates the whole domain, once for all of the ring.
pub struct FlushQueue {
    rings: Box<[Mutex<VecDeque<Entry>>]>,
    cpu: Box<dyn Fn() -> usize + Send + Sync>,
    /// Counts of full invalidations that have begun, and of those that have ended.
    begun: AtomicU64,
    ended: AtomicU64,
    /// Empties the rings after an interval; without it the caller does.
    thread: OnceLock<FlushThread>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    range: Range,
    /// `begun` at the time it was queued.
    begun: u64,
}

/// What a flush queue needs from its domain.
pub(crate) trait Flusher {
    /// Invalidates the whole IOTLB of the domain.
    fn invalidate_all(&self, counters: &mut DmaCounters);
    /// Frees a range for reuse.
    fn free(&self, range: Range, counters: &mut DmaCounters);
}

impl FlushQueue {
    /// How long the thread of [`DomainBuilder::lazy`](crate::DomainBuilder::lazy) waits before it flushes: as long as the kernel's timer.
    pub const INTERVAL_NS: u64 = 10_000_000;

    /// A queue with `cpus` rings. `cpu` returns the current CPU; it is taken modulo `cpus`.
    pub fn new(cpus: usize, cpu: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        let rings = (0..cpus.max(1)).map(|_| Mutex::default()).collect();
        let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { rings, cpu: Box::new(cpu), begun, ended, thread: OnceLock::new() }
    }

    /// A queue with a ring for each CPU of this host.
    pub fn per_cpu() -> Self {
        let cpus = host_cpus();
        Self::new(cpus.count(), move || cpus.current())
    }

    /// Number of ranges waiting.
    pub fn waiting(&self) -> usize {
        self.rings.iter().map(|ring| locked(ring).len()).sum()
    }

    /// Starts the thread that flushes for this domain.
    pub(crate) fn start_thread(&self, domain: Weak<Domain>) -> io::Result<()> {
        let thread = FlushThread::start(domain)?;
        // A queue belongs to one domain, which is built once.
        let _ = self.thread.set(thread);
        Ok(())
    }

    /// What the thread's flushes did; nothing without a thread.
    pub(crate) fn thread_counters(&self) -> DmaCounters {
        self.thread.get().map(FlushThread::counters).unwrap_or_default()
    }

    /// Queues a range that was just unmapped on the current CPU's ring.
    pub(crate) fn queue(&self, range: Range, flusher: &impl Flusher, counters: &mut DmaCounters) {
        let mut ring = locked(&self.rings[(self.cpu)() % self.rings.len()]);
        self.release(&mut ring, flusher, counters);
        if ring.len() >= RING {
            self.invalidate(flusher, counters);
            self.release(&mut ring, flusher, counters);
        }
        // The cleared table entries become visible before `begun` is read. Otherwise an invalidation that begins now may be one
        // that the IOMMU carries out with the old entries, and is taken for one that came after (as in Linux's `queue_iova`).
        fence(Ordering::SeqCst);
        ring.push_back(Entry { range, begun: self.begun.load(Ordering::Relaxed) });
        drop(ring);
        if let Some(thread) = self.thread.get() {
            thread.arm();
        }
    }

    /// The timer's work: if any ring has entries, invalidates everything and empties all rings.
    pub(crate) fn flush(&self, flusher: &impl Flusher, counters: &mut DmaCounters) {
        if self.waiting() == 0 {
            return;
        }
        self.invalidate(flusher, counters);
        for ring in &self.rings {
            self.release(&mut locked(ring), flusher, counters);
        }
    }

    /// Invalidates the whole domain and counts the begin and the end of it.
    fn invalidate(&self, flusher: &impl Flusher, counters: &mut DmaCounters) {
        let begun = BegunInvalidation::count(&self.begun);
        // Whoever reads the old `begun` from here on has cleared table entries that this invalidation sees.
        fence(Ordering::SeqCst);
        flusher.invalidate_all(counters);
        mem::forget(begun);
        self.ended.fetch_add(1, Ordering::AcqRel);
    }

    /// Frees the entries queued before a finished invalidation began. More invalidations have ended than had begun when the entry was
    /// queued, so one of them began later.
    fn release(&self, ring: &mut VecDeque<Entry>, flusher: &impl Flusher, counters: &mut DmaCounters) {
        let ended = self.ended.load(Ordering::Acquire);
        while ring.front().is_some_and(|entry| entry.begun < ended) {
            let Some(entry) = ring.pop_front() else { break };
            flusher.free(entry.range, counters);
        }
    }
}

/// An invalidation that has begun. Dropped by a panic in it, it is not counted: it will never end, and entries queued after it
/// would wait for one more than they need.
struct BegunInvalidation<'a>(&'a AtomicU64);

impl<'a> BegunInvalidation<'a> {
    /// Counts an invalidation that begins.
    fn count(begun: &'a AtomicU64) -> Self {
        begun.fetch_add(1, Ordering::Relaxed);
        Self(begun)
    }
}

impl Drop for BegunInvalidation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A CPU's ring, locked.
fn locked(ring: &Mutex<VecDeque<Entry>>) -> impl std::ops::DerefMut<Target = VecDeque<Entry>> + '_ {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for FlushQueue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FlushQueue").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[derive(Default)]
    struct Recorder {
        invalidations: Cell<u32>,
        freed: RefCell<Vec<u64>>,
    }

    impl Flusher for Recorder {
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
        let (queue, book, mut counters) =
            (FlushQueue::new(2, || 0), Recorder::default(), DmaCounters::default());
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
        let (book, mut counters) = (Recorder::default(), DmaCounters::default());
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
        let (book, mut counters) = (Recorder::default(), DmaCounters::default());
        queue.queue(page(1), &book, &mut counters);
        cpu.store(1, Ordering::Relaxed);
        queue.queue(page(2), &book, &mut counters);
        queue.flush(&book, &mut counters);
        queue.flush(&book, &mut counters);
        assert_eq!((book.invalidations.get(), queue.waiting()), (1, 0));
        assert_eq!(*book.freed.borrow(), [1, 2]);
    }

    /// Invalidates, but panics the first time.
    #[derive(Default)]
    struct PanicsOnce(Recorder);

    impl Flusher for PanicsOnce {
        fn invalidate_all(&self, counters: &mut DmaCounters) {
            self.0.invalidate_all(counters);
            assert!(self.0.invalidations.get() > 1, "the first invalidation");
        }

        fn free(&self, range: Range, counters: &mut DmaCounters) {
            self.0.free(range, counters);
        }
    }

    #[test]
    fn an_invalidation_that_panics_frees_nothing_and_the_next_one_all() {
        let (queue, book) = (FlushQueue::new(1, || 0), PanicsOnce::default());
        queue.queue(page(1), &book, &mut DmaCounters::default());
        let flush = || queue.flush(&book, &mut DmaCounters::default());
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(flush)).unwrap_err();
        assert_eq!((book.0.freed.borrow().len(), queue.waiting()), (0, 1));
        queue.queue(page(2), &book, &mut DmaCounters::default());
        flush();
        assert_eq!((&*book.0.freed.borrow(), queue.waiting()), (&vec![1, 2], 0));
    }

    #[test]
    fn ranges_queued_during_an_invalidation_wait_for_the_next() {
        let (queue, book, mut counters) =
            (FlushQueue::new(1, || 0), Recorder::default(), DmaCounters::default());
        queue.begun.store(1, Ordering::SeqCst);
        queue.queue(page(7), &book, &mut counters);
        queue.ended.store(1, Ordering::SeqCst);
        queue.queue(page(8), &book, &mut counters);
        assert!(book.freed.borrow().is_empty());
        queue.flush(&book, &mut counters);
        assert_eq!(*book.freed.borrow(), [7, 8]);
    }
}
