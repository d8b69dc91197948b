//! All orders in which threads can meet in a flush queue whose rings have one entry:
//!
//!     RUSTFLAGS="--cfg loom" cargo test --release -p dma --lib orders

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use super::{FlushQueue, Flusher};
use crate::DmaCounters;
use iova::Range;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::cell::Cell;

const PAGES: usize = 3;

loom::thread_local! {
    static CPU: Cell<usize> = Cell::new(0);
}

/// A table and the IOTLB of an IOMMU that caches whatever it can.
struct Iommu {
    /// Entries of the table. Their stores are relaxed: what orders them is the flush queue's to do.
    is_mapped: [AtomicBool; PAGES],
    is_cached: [AtomicBool; PAGES],
}

impl Flusher for Iommu {
    /// A page that the IOMMU still finds in the table may be cached again at once.
    fn invalidate_all(&self, _counters: &mut DmaCounters) {
        for (is_mapped, is_cached) in self.is_mapped.iter().zip(&self.is_cached) {
            if !is_mapped.load(Ordering::Relaxed) {
                is_cached.store(false, Ordering::Relaxed);
            }
        }
    }

    fn free(&self, range: Range, _counters: &mut DmaCounters) {
        let is_cached = &self.is_cached[range.first as usize];
        assert!(
            !is_cached.load(Ordering::Relaxed),
            "page {} is freed while an adapter reaches it",
            range.first
        );
    }
}

struct Rig {
    queue: FlushQueue,
    iommu: Iommu,
}

impl Rig {
    fn new() -> Arc<Self> {
        let each = |value: bool| std::array::from_fn(|_| AtomicBool::new(value));
        Arc::new(Self {
            queue: FlushQueue::new(2, || CPU.with(Cell::get)),
            iommu: Iommu { is_mapped: each(true), is_cached: each(true) },
        })
    }

    fn unmap(&self, page: usize) {
        self.iommu.is_mapped[page].store(false, Ordering::Relaxed);
        self.queue.queue(Range { first: page as u64, pages: 1 }, &self.iommu, &mut DmaCounters::default());
    }

    fn flush(&self) {
        self.queue.flush(&self.iommu, &mut DmaCounters::default());
    }

    /// What still waits is freed by one more flush.
    fn check_empty(&self) {
        self.flush();
        assert_eq!(self.queue.waiting(), 0);
    }
}

/// A thread on a CPU.
fn on(cpu: usize, rig: &Arc<Rig>, work: impl FnOnce(&Rig) + 'static) -> thread::JoinHandle<()> {
    let rig = Arc::clone(rig);
    thread::spawn(move || {
        CPU.with(|current| current.set(cpu));
        work(&rig);
    })
}

/// Tries the orders with at most three changes of threads that no thread asked for.
fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn all_rings_are_flushed_while_another_cpu_unmaps() {
    model(|| {
        let rig = Rig::new();
        // Something waits, so that there is something to flush.
        rig.unmap(0);
        let other = on(1, &rig, |rig| rig.unmap(1));
        rig.flush();
        other.join().unwrap();
        rig.check_empty();
    });
}

#[test]
fn all_rings_are_flushed_twice_while_another_cpu_unmaps() {
    model(|| {
        let rig = Rig::new();
        rig.unmap(0);
        let others = [on(1, &rig, |rig| rig.unmap(1)), on(0, &rig, Rig::flush)];
        rig.flush();
        others.into_iter().for_each(|other| other.join().unwrap());
        rig.check_empty();
    });
}

#[test]
fn two_threads_find_the_same_ring_full() {
    model(|| {
        let rig = Rig::new();
        rig.unmap(0);
        let other = on(0, &rig, |rig| rig.unmap(1));
        rig.unmap(2);
        other.join().unwrap();
        rig.check_empty();
    });
}
