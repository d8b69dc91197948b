//! Threads move values between the stacks of CPUs while they migrate: each step is done completely or not at all.

use super::cpu;
use super::stacks::{CAPACITY, Stacks};
use rseq::Rseq;
use rustix::thread::{Pid, gettid};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Values that a thread holds at first, and a stack.
const HELD: u64 = 8;
const FILLED: u64 = 64;
const THREADS_PER_CPU: usize = 3;

/// What was done.
#[derive(Debug, Default)]
pub struct Counts {
    /// Pushes that were done.
    pub pushed: u64,
    /// Pushes that were interrupted: no stack is ever full.
    pub interrupted: u64,
    /// Migrations that were requested.
    pub migrations: u64,
}

/// Fills each stack with values. They are numbered; the first are those that threads hold.
fn fill(stacks: &Stacks, cpus: usize, threads: u64) {
    let mut values = threads * HELD..;
    for cpu in 0..cpus {
        let (count, words) = stacks.of(cpu);
        words.iter().take(FILLED as usize).zip(&mut values).for_each(|(word, value)| {
            word.store(value, Ordering::Relaxed);
        });
        count.store(FILLED, Ordering::Relaxed);
    }
}

/// Pops and pushes until `done`. Returns the values that the thread still holds.
fn work(stacks: &Stacks, mut held: Vec<u64>, done: &AtomicBool) -> (Counts, Vec<u64>) {
    let mut counts = Counts::default();
    while !done.load(Ordering::Relaxed) {
        for _ in 0..100 {
            held.extend(stacks.pop());
            if let Some(last) = held.pop() {
                if stacks.push(last) {
                    counts.pushed += 1;
                } else {
                    held.push(last);
                    counts.interrupted += 1;
                }
            }
        }
    }
    (counts, held)
}

/// Migrates threads from CPU to CPU.
fn migrate(threads: &[Pid], cpus: &[usize], migrations: usize) {
    for turn in 0..migrations {
        let cpu = cpus[turn / threads.len() % cpus.len()];
        assert!(cpu::keep_on(Some(threads[turn % threads.len()]), &[cpu]));
        if turn % 64 == 0 {
            // Where this thread is alone on its CPU, the others would wait for the end of its time slice.
            std::thread::yield_now();
        }
    }
}

/// Moves values under migrations. Panics if a value is lost, or there twice.
pub fn run(rseq: Rseq, migrations: usize) -> Counts {
    let cpus = cpu::allowed();
    let threads = cpus.len() * THREADS_PER_CPU;
    let stacks = Stacks::new(rseq);
    fill(&stacks, rseq.cpus(), threads as u64);
    assert!((rseq.cpus() as u64 * FILLED + threads as u64 * HELD) < CAPACITY, "a stack could become full");
    let done = AtomicBool::new(false);
    let (sender, started) = mpsc::channel();
    let mut counts = Counts { migrations: migrations as u64, ..Counts::default() };
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let (sender, stacks, done) = (sender.clone(), &stacks, &done);
                scope.spawn(move || {
                    sender.send(gettid()).unwrap();
                    work(stacks, (thread * HELD..(thread + 1) * HELD).collect(), done)
                })
            })
            .collect();
        let started: Vec<Pid> = started.iter().take(threads).collect();
        migrate(&started, &cpus, migrations);
        done.store(true, Ordering::Relaxed);
        let mut held = Vec::new();
        for worker in workers {
            let (of_worker, left) = worker.join().unwrap();
            counts.pushed += of_worker.pushed;
            counts.interrupted += of_worker.interrupted;
            held.extend(left);
        }
        held
    });
    for cpu in 0..rseq.cpus() {
        let (count, words) = stacks.of(cpu);
        let count = count.load(Ordering::Relaxed) as usize;
        all.extend(words[..count].iter().map(|value| value.load(Ordering::Relaxed)));
    }
    all.sort_unstable();
    let values = threads as u64 * HELD + rseq.cpus() as u64 * FILLED;
    assert!(all.iter().copied().eq(0..values), "values were lost or doubled: {all:?}");
    counts
}
