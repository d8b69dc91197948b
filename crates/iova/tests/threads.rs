//! Many threads at one allocator, and a bit for each page that finds two owners.
//!
//! `IOTOLL_THREADS=1024 cargo test --release -p iova --test threads` for as many threads.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "../../../tests/owners.rs"]
mod owners;

use iova::{
    Allocator, Audited, BitTree, Bitmap, Checked, Depot, GapTree, Magazines, Percpu, Pools, Range, Rbtree,
    Request, Sharded, Space, Trusting, host_percpu,
};
#[cfg(target_os = "linux")]
use iova::{Cpus, Rseq};
use owners::Owners;
use std::cell::Cell;
#[cfg(target_os = "linux")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

/// Pages of the space.
const PAGES: u64 = 1 << 16;

/// What all threads do together, beside a few of each.
const OPERATIONS: u64 = 1 << 16;

/// Ranges that a thread keeps at most.
const HELD_MAX: usize = 32;

#[test]
fn bit_tree() {
    check(&BitTree::new(&space()).unwrap());
}

#[test]
fn bitmap() {
    check(&Bitmap::new(&space()).unwrap());
}

#[test]
fn gap_tree() {
    check(&GapTree::new(&space()).unwrap());
}

#[test]
fn percpu() {
    check(&*host_percpu::<Checked>(&space(), PAGES / 2).unwrap());
    check(&*host_percpu::<Audited>(&space(), PAGES / 2).unwrap());
    check(&*host_percpu::<Trusting>(&space(), PAGES / 2).unwrap());
}

/// A thread that wakes up on another CPU than the one where it began a step.
#[cfg(target_os = "linux")]
#[test]
fn percpu_while_threads_are_moved() {
    let Ok(rseq) = Rseq::new() else { return };
    let audited = Percpu::audited(&space(), PAGES / 2, rseq).unwrap();
    let checked = host_percpu::<Checked>(&space(), PAGES / 2).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| movers::move_all_until(&done));
        check(&audited);
        check(&*checked);
        done.store(true, Ordering::Relaxed);
        assert!(mover.join().unwrap() > 0, "nothing was moved");
    });
}

/// A thread that never is where it believes to be: no step succeeds.
#[cfg(target_os = "linux")]
#[test]
fn percpu_by_steps_from_afar() {
    let Some(rseq) = Rseq::new().ok().filter(|rseq| rseq.cpus() > 1) else { return };
    check(&Percpu::checked(&space(), PAGES / 2, movers::Mistaken(rseq)).unwrap());
}

#[test]
fn percpu_by_locks() {
    check(&Percpu::checked(&space(), PAGES / 2, Sharded::by_thread()).unwrap());
    check(&Percpu::audited(&space(), PAGES / 2, Sharded::by_thread()).unwrap());
}

#[test]
fn pools() {
    check(&Pools::new(&space(), 1 << 30, cpu).unwrap());
}

#[test]
fn rbtree() {
    check(&Rbtree::new(&space(), PAGES / 2).unwrap());
}

#[test]
fn magazines_of_6_1() {
    check(&Magazines::new(&space(), PAGES / 2, 4, cpu, Depot::Bounded).unwrap());
}

#[test]
fn magazines_of_6_12() {
    check(&Magazines::new(&space(), PAGES / 2, 4, cpu, Depot::Unbounded).unwrap());
}

fn space() -> Space {
    Space { reserved: vec![Range { first: 1000, pages: 24 }], ..Space::new(1, PAGES) }
}

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
}

/// Threads are CPUs here.
fn cpu() -> u32 {
    CPU.get()
}

/// Threads allocate, and free what they or others have allocated; no page has two owners, and none is lost.
fn check(allocator: &(impl Allocator + ?Sized)) {
    let threads: u32 = std::env::var("IOTOLL_THREADS").map_or(4, |threads| threads.parse().unwrap());
    let before = allocator.usage();
    let owners = Owners::new(PAGES);
    let passed_on = Mutex::new(Vec::new());
    let start = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let operations = OPERATIONS / u64::from(threads) + 400;
        for thread in 0..threads {
            let (owners, passed_on, start) = (&owners, &passed_on, &start);
            let work = move || {
                CPU.set(thread);
                start.wait();
                Worker { allocator, owners, passed_on, state: u64::from(thread) + 1 }.work(operations);
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work).unwrap();
        }
    });
    for range in passed_on.into_inner().unwrap() {
        owners.leave(range);
        allocator.free(range).unwrap();
    }
    let after = allocator.usage();
    assert_eq!((after.allocated_pages, after.free_pages), (0, before.free_pages));
}

struct Worker<'a, A: ?Sized> {
    allocator: &'a A,
    owners: &'a Owners,
    /// Ranges for any other thread to free.
    passed_on: &'a Mutex<Vec<Range>>,
    state: u64,
}

impl<A: Allocator + ?Sized> Worker<'_, A> {
    fn work(mut self, operations: u64) {
        let mut held = Vec::new();
        for _ in 0..operations {
            match self.below(8) {
                0..4 if held.len() < HELD_MAX => held.extend(self.allocate()),
                4 => self.passed_on.lock().unwrap().extend(held.pop()),
                5 => held.extend(self.passed_on.lock().unwrap().pop()),
                _ => {
                    if !held.is_empty() {
                        let index = self.below(held.len() as u64) as usize;
                        self.free(held.swap_remove(index));
                    }
                }
            }
        }
        held.into_iter().for_each(|range| self.free(range));
    }

    fn allocate(&mut self) -> Option<Range> {
        let pages = if self.below(16) == 0 { 1 + self.below(100) } else { 1 + self.below(8) };
        let limit = [u64::MAX, PAGES / 2, PAGES / 3][self.below(3) as usize];
        let request = Request::size_aligned(pages, limit);
        let range = request.range(self.allocator.allocate(&request).ok()?);
        assert!(range.last() <= limit, "{range}");
        self.owners.enter(range);
        Some(range)
    }

    fn free(&self, range: Range) {
        self.owners.leave(range);
        self.allocator.free(range).unwrap();
    }

    /// A number below `end`, by a linear congruential generator.
    fn below(&mut self, end: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % end
    }
}

#[cfg(target_os = "linux")]
mod movers {
    use super::*;
    use iova::percpu::Slabs;
    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

    /// Puts each thread of this process on one CPU after the other, and says how often.
    pub(crate) fn move_all_until(done: &AtomicBool) -> u64 {
        let all = sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
        let mut moves = 0;
        for turn in 0.. {
            let last = done.load(Ordering::Relaxed);
            for (place, thread) in threads().into_iter().enumerate() {
                let mut one = CpuSet::new();
                one.set(cpus[(turn + place) % cpus.len()]);
                // It may have ended meanwhile.
                moves += u64::from(sched_setaffinity(thread, if last { &all } else { &one }).is_ok());
            }
            if last {
                break;
            }
        }
        moves
    }

    fn threads() -> Vec<Option<Pid>> {
        let folder = std::fs::read_dir("/proc/self/task").unwrap();
        let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        numbers.map(Pid::from_raw).collect()
    }

    /// Names the CPU next to the one where the caller is.
    pub(crate) struct Mistaken(pub(crate) Rseq);

    // SAFETY: it has no steps of its own.
    #[allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]
    unsafe impl Cpus for Mistaken {
        fn count(&self) -> usize {
            self.0.cpus()
        }

        fn current(&self) -> usize {
            (self.0.current() + 1) % self.0.cpus()
        }

        fn pop(&self, _slabs: &Slabs, _number: usize, _more: u64, _limit: u64) -> Option<u64> {
            None
        }

        fn push(&self, _slabs: &Slabs, _number: usize, _capacity: u64, _page: u64) -> bool {
            false
        }

        fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64> {
            Cpus::close(&self.0, cpu, count)
        }

        fn fence(&self, cpu: usize) {
            self.0.fence(cpu);
        }
    }
}
