//! Threads that map and unmap in one table: ranges of their own, in pages of tables that they share.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, Amd, BusAddress, DmaCounters, FRAME_BYTES, Frames, MemoryAddress, Radix, Ram, Smmu, Vtd, Walk,
    WalkFault, Walked,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

const PAGE: u64 = FRAME_BYTES;
const TWO_MIB: u64 = 2 << 20;
const TABLES_BYTES: u64 = 16 << 20;
const THREADS: u64 = 4;
const ROUNDS: u64 = 60;

#[test]
fn vtd() {
    check::<Vtd>();
}

#[test]
fn amd() {
    check::<Amd>();
}

#[test]
fn smmu() {
    check::<Smmu>();
}

fn check<F: Walked>() {
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let table = Arc::new(Radix::<F>::new(Arc::clone(&ram), Arc::clone(&frames), 4).unwrap());
    let start = Arc::new(Barrier::new(THREADS as usize));
    let workers = (0..THREADS).map(|thread| {
        let (table, ram, start) = (Arc::clone(&table), Arc::clone(&ram), Arc::clone(&start));
        thread::spawn(move || {
            start.wait();
            (0..ROUNDS).for_each(|round| Worker { table: &table, ram: &ram, thread }.round(round));
        })
    });
    workers.collect::<Vec<_>>().into_iter().for_each(|worker| worker.join().unwrap());
    let walker = F::walker(&table);
    for page in 0..ROUNDS * THREADS * 8 {
        let left = walker.walk(&ram, BusAddress(page * PAGE), &mut 0);
        assert!(matches!(left, Err(WalkFault::NotPresent { .. })), "{left:?}");
    }
    drop(table);
    let free = std::iter::from_fn(|| frames.allocate().ok()).count() as u64;
    assert_eq!(free, TABLES_BYTES / PAGE, "pages of tables that were lost");
}

/// Two threads that want the same new tables at the same moment.
#[test]
fn tables_are_made_once() {
    const MEETINGS: u64 = 1500;
    let ram = Arc::new(Ram::new(MemoryAddress(0), TABLES_BYTES));
    let frames = Arc::new(Frames::new(MemoryAddress(0), TABLES_BYTES));
    let table = Radix::<Vtd>::new(Arc::clone(&ram), frames, 4).unwrap();
    let arrived = AtomicU64::new(0);
    let pages = |side: u64| (0..MEETINGS).map(move |meeting| BusAddress((meeting << 30) + side * PAGE));
    let made: u64 = thread::scope(|scope| {
        let sides = [0, 1].map(|side| {
            let (table, arrived) = (&table, &arrived);
            scope.spawn(move || {
                let mut counters = DmaCounters::default();
                for (at, meeting) in pages(side).zip(1..) {
                    arrived.fetch_add(1, Ordering::AcqRel);
                    while arrived.load(Ordering::Acquire) < 2 * meeting {
                        std::hint::spin_loop();
                    }
                    table.map(at, MemoryAddress(at.0), PAGE, Access::Read, &mut counters).unwrap();
                }
                counters.table_pages
            })
        });
        sides.into_iter().map(|side| side.join().unwrap()).sum()
    });
    // For each GiB two tables, and those of the level above them for each 512.
    assert_eq!(made, 2 * MEETINGS + MEETINGS.div_ceil(512));
    for at in pages(0).chain(pages(1)) {
        assert_eq!(table.find(at), Some(MemoryAddress(at.0)));
    }
}

struct Worker<'a, F: Walked> {
    table: &'a Radix<F>,
    ram: &'a Ram,
    thread: u64,
}

impl<F: Walked> Worker<'_, F> {
    /// Pages that alternate with those of other threads, and 2 MiB that alternate too, once as small pages and once as one.
    fn round(&self, round: u64) {
        let pages: Vec<u64> = (0..8).map(|n| ((round * 8 + n) * THREADS + self.thread) * PAGE).collect();
        pages.iter().for_each(|at| self.map(*at, PAGE, round));
        let block = (1 << 30) + ((round % 3) * THREADS + self.thread) * TWO_MIB;
        (0..4).for_each(|n| self.map(block + n * PAGE, PAGE, round));
        pages.iter().for_each(|at| self.look(*at, round));
        (0..4).for_each(|n| self.unmap(block + n * PAGE, PAGE));
        // The table that is left empty gives way.
        self.map(block, TWO_MIB, round);
        self.look(block + PAGE, round);
        self.unmap(block, TWO_MIB);
        // Small pages, as the memory is off by one; all of their table goes at once.
        self.map_to(block, MemoryAddress(PAGE), TWO_MIB);
        self.unmap(block, TWO_MIB);
        pages.iter().for_each(|at| self.unmap(*at, PAGE));
    }

    fn map(&self, at: u64, bytes: u64, round: u64) {
        self.map_to(at, MemoryAddress(at + round * (1 << 32)), bytes);
    }

    fn map_to(&self, at: u64, memory: MemoryAddress, bytes: u64) {
        let (at, mut counters) = (BusAddress(at), DmaCounters::default());
        if self.table.map(at, memory, bytes, Access::ReadWrite, &mut counters).unwrap() {
            self.table.invalidated(at, bytes, || {});
        }
    }

    fn look(&self, at: u64, round: u64) {
        let walker: Arc<dyn Walk> = F::walker(self.table);
        let leaf = walker.walk(self.ram, BusAddress(at), &mut 0).unwrap();
        assert_eq!(leaf.lead(BusAddress(at)), MemoryAddress(at + round * (1 << 32)));
    }

    fn unmap(&self, at: u64, bytes: u64) {
        let at = BusAddress(at);
        self.table.unmap(at, bytes, &mut DmaCounters::default()).unwrap();
        self.table.invalidated(at, bytes, || {});
        assert_eq!(self.table.find(at), None);
    }
}
