//! A CPU goes offline while its stack has free ranges and a step is in progress on it. The step is interrupted, others find the
//! ranges when the space is full, and the CPU's steps work when it is online again.

use super::cpu;
use super::stacks::Stacks;
use iova::{Allocator, Percpu, Range, Request, Space};
use rseq::Rseq;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGES: u64 = 1 << 12;
/// Pages that are freed on the CPU before it goes offline.
const FREED: usize = 8;
/// Steps on a CPU that is online again.
const STEPS: u64 = 500;

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    /// The CPU that went offline.
    pub cpu: usize,
    /// How often it did.
    pub offline: u64,
    /// Steps in progress that this interrupted.
    pub interrupted: u64,
    /// Pages in stacks while it was offline, all rounds together.
    pub cached_pages: u64,
    /// Pages that one CPU then allocated, all rounds together.
    pub allocated: u64,
    /// Steps that were done on it when it was online again.
    pub steps: u64,
}

fn set_online(cpu: usize, is_online: bool) {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    fs::write(&path, if is_online { "1" } else { "0" }).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().trim(), if is_online { "1" } else { "0" });
}

/// Frees pages on `there`, and takes the CPU offline during a step. Returns how many steps were interrupted.
fn go_offline(rseq: Rseq, allocator: &Percpu<Rseq>, there: usize) -> u64 {
    let (begun, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let page = Request::new(1, PAGES);
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| {
            assert!(cpu::keep_on(None, &[there]));
            let firsts = [(); FREED].map(|()| allocator.allocate(&page).unwrap());
            firsts.iter().for_each(|first| allocator.free(page.range(*first)).unwrap());
            let mut interrupted = 0;
            // The thread goes on elsewhere when its CPU is offline, and there one of its steps is done.
            while !rseq.wait_in_step(&begun, &end, 1) {
                interrupted += 1;
            }
            assert_ne!(rseq.current(), there, "a thread runs on a CPU that is offline");
            interrupted
        });
        while begun.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        set_online(there, false);
        rseq.fence(there);
        end.store(1, Ordering::Release);
        steps.join().unwrap()
    })
}

/// Allocates all pages on the calling thread's CPU, and frees them.
fn allocate_all(allocator: &Percpu<Rseq>) -> u64 {
    let page = Request::new(1, PAGES);
    let mut all: Vec<u64> = std::iter::from_fn(|| allocator.allocate(&page).ok()).collect();
    all.sort_unstable();
    assert!(all.iter().copied().eq(1..=PAGES), "{} pages of {PAGES} were found", all.len());
    all.iter().for_each(|first| allocator.free(Range { first: *first, pages: 1 }).unwrap());
    all.len() as u64
}

/// Pushes and pops on CPU `there`. Returns how many steps were done.
fn steps_on(rseq: Rseq, there: usize) -> u64 {
    let stacks = Stacks::new(rseq);
    let work = || {
        assert!(cpu::keep_on(None, &[there]));
        assert_eq!((rseq.current(), rseq.registered_cpu()), (there, Some(there)));
        let count = || stacks.of(there).0.load(Ordering::Relaxed);
        let mut done = 0;
        for step in 0..STEPS {
            let before = count();
            if stacks.push(step) {
                assert_eq!(count(), before + 1);
                done += 1;
            }
            done += u64::from(stacks.pop().is_some());
        }
        done
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// Takes the last CPU offline and online again, `rounds` times. Needs root. Panics if ranges are lost.
pub fn run(rseq: Rseq, rounds: u64) -> Counts {
    let cpus = cpu::allowed();
    let [here, .., there] = cpus[..] else { panic!("a CPU goes offline only where there are two") };
    assert!(cpu::keep_on(None, &[here]));
    let allocator = Percpu::checked(&Space::new(1, PAGES), 0, rseq).unwrap();
    let mut counts = Counts { cpu: there, ..Counts::default() };
    for _ in 0..rounds {
        let interrupted = go_offline(rseq, &allocator, there);
        assert!(interrupted > 0, "a step went on although its CPU was offline");
        counts.interrupted += interrupted;
        counts.offline += 1;
        let usage = allocator.usage();
        assert!(usage.cached_pages >= FREED as u64 && usage.free_pages == PAGES, "{usage:?}");
        counts.cached_pages += usage.cached_pages;
        counts.allocated += allocate_all(&allocator);
        set_online(there, true);
        counts.steps += steps_on(rseq, there);
    }
    assert!(cpu::keep_on(None, &cpus));
    counts
}
