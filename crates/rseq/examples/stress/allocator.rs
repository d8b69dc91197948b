//! The per-CPU allocator of `iova`, with more threads than CPUs: no page has two owners, and none is lost. Meanwhile one thread
//! empties the stacks of all CPUs, by requests that can't be satisfied otherwise.

#[path = "../../../../tests/owners.rs"]
mod owners;

use super::cpu;
use iova::{AllocateError, Allocator, Percpu, Range, Request, Space};
use owners::Owners;
use rseq::Rseq;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const PAGES: u64 = 1 << 13;
/// Ranges that a thread keeps at most.
const HELD_MAX: usize = 24;
const THREADS_PER_CPU: usize = 4;
/// A reserved page: no range has more than half of the space.
const MIDDLE: u64 = PAGES / 2 + 1;
const HALVES: [u64; 2] = [MIDDLE - 1, PAGES - MIDDLE];

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    /// Allocations by all threads.
    pub allocated: u64,
    /// Small allocations that failed.
    pub full: u64,
    /// Requests, while other threads made steps, that were refused after the stacks of all CPUs were emptied.
    pub collections: u64,
    /// Rounds that ended with free pages in stacks, and after which all pages were found in two ranges.
    pub whole: u64,
}

/// A thread, and what it shares with others.
struct Worker<'a> {
    allocator: &'a Percpu<Rseq>,
    owners: &'a Owners,
    /// Ranges for any other thread to free.
    passed_on: &'a Mutex<Vec<Range>>,
    counts: Counts,
    state: u64,
}

impl Worker<'_> {
    fn work(mut self, operations: u64) -> Counts {
        let mut held = Vec::new();
        for _ in 0..operations {
            match self.below(8) {
                0..4 if held.len() < HELD_MAX => held.extend(self.allocate_small()),
                4 => self.passed_on.lock().unwrap().extend(held.pop()),
                5 => held.extend(self.passed_on.lock().unwrap().pop()),
                _ if held.is_empty() => {}
                _ => {
                    let index = self.below(held.len() as u64) as usize;
                    self.free(held.swap_remove(index));
                }
            }
        }
        held.into_iter().for_each(|range| self.free(range));
        self.counts
    }

    /// Allocates a range; `None` if the space is full.
    fn allocate(&mut self, request: &Request) -> Option<Range> {
        let range = match self.allocator.allocate(request) {
            Ok(first) => request.range(first),
            Err(AllocateError::Full) => return None,
            Err(error) => panic!("{error}"),
        };
        self.owners.enter(range);
        self.counts.allocated += 1;
        Some(range)
    }

    fn allocate_small(&mut self) -> Option<Range> {
        let pages = 1 + self.below(8);
        let range = self.allocate(&Request::size_aligned(pages, PAGES));
        self.counts.full += u64::from(range.is_none());
        range
    }

    fn free(&self, range: Range) {
        self.owners.leave(range);
        self.allocator.free(range).unwrap();
    }

    /// Requests more than half of the space, once and then until `done`.
    fn collect(mut self, done: &AtomicBool) -> Counts {
        loop {
            assert!(self.allocate(&Request::new(HALVES[0] + 1, PAGES)).is_none());
            self.counts.collections += 1;
            if done.load(Ordering::Relaxed) {
                return self.counts;
            }
            std::thread::yield_now();
        }
    }

    /// A number below `end`, by a linear congruential generator.
    fn below(&mut self, end: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % end
    }
}

/// Lets threads allocate and free in rounds. Panics if a page has two owners, or is lost.
pub fn run(rseq: Rseq, rounds: u64, operations: u64) -> Counts {
    let reserved = vec![Range { first: MIDDLE, pages: 1 }];
    let allocator = Percpu::checked(&Space { reserved, ..Space::new(1, PAGES) }, 0, rseq).unwrap();
    let owners = Owners::new(PAGES);
    let threads = (cpu::allowed().len() * THREADS_PER_CPU) as u64;
    let mut counts = Counts::default();
    for round in 0..rounds {
        let passed_on = Mutex::new(Vec::new());
        let done = AtomicBool::new(false);
        let worker = |number| Worker {
            allocator: &allocator,
            owners: &owners,
            passed_on: &passed_on,
            counts: Counts::default(),
            state: round * threads + number + 1,
        };
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| worker(0).collect(&done));
            let workers: Vec<_> =
                (1..=threads).map(|number| scope.spawn(move || worker(number).work(operations))).collect();
            let mut all: Vec<Counts> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            all.push(collector.join().unwrap());
            for of_thread in all {
                counts.allocated += of_thread.allocated;
                counts.full += of_thread.full;
                counts.collections += of_thread.collections;
            }
        });
        let last = worker(0);
        let left: Vec<Range> = passed_on.lock().unwrap().drain(..).collect();
        left.into_iter().for_each(|range| last.free(range));
        let usage = allocator.usage();
        assert_eq!((usage.allocated_pages, usage.free_pages), (0, PAGES - 1));
        let halves = HALVES.map(|pages| {
            let request = Request::new(pages, PAGES);
            request.range(allocator.allocate(&request).expect("all pages are free"))
        });
        counts.whole += u64::from(usage.cached_pages > 0);
        halves.into_iter().for_each(|half| allocator.free(half).unwrap());
    }
    counts
}
