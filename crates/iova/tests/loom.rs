//! All orders in which few threads can meet in the per-CPU allocator, with stacks of four pages.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile loom -p iova --test loom`. Steps on a CPU are modelled by a lock for each CPU, as in
//! `LockedSteps`: towards other steps of their CPU they happen at once, towards other CPUs they don't.

#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use iova::percpu::{AtomicU64, Slabs};
use iova::{Allocator, Cpus, Percpu, Range, Request, Space};
use loom::sync::Arc;
use loom::thread;
use std::cell::Cell;
use support::LockedSteps;

loom::thread_local! {
    static CPU: Cell<usize> = Cell::new(0);
}

fn on(cpu: usize) {
    CPU.with(|current| current.set(cpu));
}

fn allocator(last: u64) -> Percpu<LockedSteps> {
    Percpu::checked(&Space::new(0, last), 0, LockedSteps::new(2, || CPU.with(Cell::get))).unwrap()
}

fn one(allocator: &Percpu<impl Cpus>) -> Option<Range> {
    let request = Request::new(1, 100);
    allocator.allocate(&request).ok().map(|first| request.range(first))
}

/// A page for a thread of another CPU.
fn one_elsewhere(allocator: &Arc<Percpu<LockedSteps>>) -> thread::JoinHandle<Range> {
    let allocator = Arc::clone(allocator);
    thread::spawn(move || {
        on(1);
        one(&allocator).unwrap()
    })
}

/// Everything can be allocated once, and nothing twice.
fn check_whole(allocator: &Percpu<impl Cpus>, out: &[Range], pages: usize) {
    let mut all: Vec<u64> = out.iter().map(|range| range.first).collect();
    while let Some(range) = one(allocator) {
        all.push(range.first);
    }
    all.sort_unstable();
    assert_eq!(all, (0..pages as u64).collect::<Vec<_>>());
}

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(10);
    builder.check(check);
}

#[test]
fn freed_on_another_cpu_while_the_owner_allocates() {
    model(|| {
        let allocator = Arc::new(allocator(7));
        let first: Vec<Range> = (0..4).map(|_| one(&allocator).unwrap()).collect();
        let freed = first[1];
        let other = thread::spawn({
            let allocator = Arc::clone(&allocator);
            move || {
                on(1);
                allocator.free(freed).unwrap();
            }
        });
        let next = one(&allocator).unwrap();
        other.join().unwrap();
        check_whole(&allocator, &[first[0], first[2], first[3], next], 8);
    });
}

#[test]
fn collecting_while_another_takes_from_the_depot() {
    model(|| {
        let allocator = Arc::new(allocator(7));
        let mut out: Vec<Range> = (0..8).map(|_| one(&allocator).unwrap()).collect();
        // The sixth runs over: two go to the depot. The others are allocated again.
        out.drain(..6).rev().for_each(|range| allocator.free(range).unwrap());
        out.extend((0..4).map(|_| one(&allocator).unwrap()));
        let free: Vec<u64> = (0..8).filter(|page| out.iter().all(|range| range.first != *page)).collect();
        assert!(free.len() == 2 && free.iter().any(|page| page % 2 == 0), "{free:?} in the depot");
        let other = thread::spawn({
            let allocator = Arc::clone(&allocator);
            move || {
                on(1);
                let even = Request { alignment_order: 1, ..Request::new(1, 100) };
                allocator.allocate(&even).ok()
            }
        });
        let mine = one(&allocator).unwrap();
        match other.join().unwrap() {
            Some(first) => assert!(first % 2 == 0 && first != mine.first),
            None => assert_eq!(mine.first % 2, 0, "an even page was free all the time"),
        }
    });
}

#[test]
fn collecting_from_a_cpu_that_frees() {
    model(|| {
        let allocator = Arc::new(allocator(3));
        let out: Vec<Range> = (0..3).map(|_| one(&allocator).unwrap()).collect();
        let freed = out[0];
        // The last free page is in the other's stack.
        let other = one_elsewhere(&allocator);
        allocator.free(freed).unwrap();
        let taken = other.join().unwrap();
        check_whole(&allocator, &[out[1], out[2], taken], 4);
    });
}

#[test]
fn collecting_from_a_cpu_that_allocates_and_frees() {
    model(|| {
        let allocator = Arc::new(allocator(4));
        let mut out: Vec<Range> = (0..5).map(|_| one(&allocator).unwrap()).collect();
        // Three in the stack of the first CPU, one of them on top.
        out.drain(..3).for_each(|range| allocator.free(range).unwrap());
        let other = one_elsewhere(&allocator);
        let mine = one(&allocator).unwrap();
        allocator.free(mine).unwrap();
        out.extend(one(&allocator));
        out.push(other.join().unwrap());
        assert_eq!(out.len(), 4);
        check_whole(&allocator, &out, 5);
    });
}

#[test]
fn both_collect_at_once() {
    model(|| {
        let allocator = Arc::new(allocator(3));
        let out: Vec<Range> = (0..2).map(|_| one(&allocator).unwrap()).collect();
        let other = one_elsewhere(&allocator);
        let mine = one(&allocator).unwrap();
        let taken = other.join().unwrap();
        check_whole(&allocator, &[out[0], out[1], mine, taken], 4);
    });
}

loom::thread_local! {
    static HAS_MIGRATED: Cell<bool> = Cell::new(false);
}

/// Two CPUs, of which a thread that has migrated names the one where it was.
struct Migrated(LockedSteps);

// SAFETY: all steps are those of another implementation, by the CPU that it knows.
#[allow(unsafe_code, reason = "the trait of per-CPU steps is unsafe")]
unsafe impl Cpus for Migrated {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn current(&self) -> usize {
        if HAS_MIGRATED.with(Cell::get) { 1 - self.0.current() } else { self.0.current() }
    }

    fn pop(&self, slabs: &Slabs, number: usize, more: u64, limit: u64) -> Option<u64> {
        self.0.pop(slabs, number, more, limit)
    }

    fn push(&self, slabs: &Slabs, number: usize, capacity: u64, page: u64) -> bool {
        self.0.push(slabs, number, capacity, page)
    }

    fn close(&self, cpu: usize, count: &AtomicU64) -> Option<u64> {
        self.0.close(cpu, count)
    }

    fn fence(&self, cpu: usize) {
        self.0.fence(cpu);
    }
}

/// The thread fills and opens the stack of a CPU on which it no longer runs, while another thread pops there. Needs the Acquire of a
/// pop's load of the count: without it, values from before are popped.
#[test]
fn filling_the_stack_of_a_cpu_where_another_allocates() {
    model(|| {
        let steps = Migrated(LockedSteps::new(2, || CPU.with(Cell::get)));
        let allocator = Arc::new(Percpu::checked(&Space::new(0, 15), 0, steps).unwrap());
        let other = thread::spawn({
            let allocator = Arc::clone(&allocator);
            move || {
                on(1);
                one(&allocator).unwrap()
            }
        });
        HAS_MIGRATED.with(|migrated| migrated.set(true));
        let mine = one(&allocator).unwrap();
        HAS_MIGRATED.with(|migrated| migrated.set(false));
        let taken = other.join().unwrap();
        check_whole(&allocator, &[mine, taken], 16);
    });
}
