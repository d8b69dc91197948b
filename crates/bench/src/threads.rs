//! Runs workers in threads that start together, and measures their time.

use crate::caller::{Caller, Counts, Samples};
use crate::clock::TickClock;
use crate::scenario::Worker;
use iova::Allocator;
use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Instant;

/// Stack of a thread: enough for a worker's loop, and small enough for a thousand threads.
const STACK_BYTES: usize = 256 << 10;

/// Why threads could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// A thread could not be created.
    #[error(
        "can't start {threads} threads; this system's limit may be lower (ulimit -u, /proc/sys/kernel/threads-max)"
    )]
    Spawn {
        /// The requested number of threads.
        threads: usize,
        /// The operating system's error.
        source: io::Error,
    },
    /// A thread can't be pinned to a CPU.
    #[error("can't pin a thread to CPU {cpu}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Times, counts and samples of a round.
#[derive(Debug)]
pub(crate) struct RoundTotals {
    /// Time from the first thread's start to the last one's end.
    pub(crate) wall_ns: u64,
    /// CPU time of all threads.
    pub(crate) cpu_ns: u64,
    /// Sum of all threads' counts.
    pub(crate) counts: Counts,
    /// Each thread's latency samples.
    pub(crate) samples: Vec<Samples>,
}

/// Runs all workers for one round, each in a thread of its own, as [`together`] does.
pub(crate) fn work(
    workers: &mut [Box<dyn Worker>],
    allocator: &dyn Allocator,
    clock: TickClock,
    pairs: u64,
    cpus: &[usize],
) -> Result<RoundTotals, ThreadError> {
    let mut tasks: Vec<(&mut Box<dyn Worker>, Samples)> =
        workers.iter_mut().map(|worker| (worker, Samples::with_capacity_for(2 * pairs, clock))).collect();
    let Together { wall_ns, cpu_ns, results } = together(&mut tasks, cpus, |thread, (worker, samples)| {
        worker.work(Caller::new(allocator, samples, thread), pairs)
    })?;
    let counts = results.into_iter().fold(Counts::default(), Counts::plus);
    let samples = tasks.into_iter().map(|(_, samples)| samples).collect();
    Ok(RoundTotals { wall_ns, cpu_ns, counts, samples })
}

/// What threads returned that started together, and the time that they took.
#[derive(Debug)]
pub(crate) struct Together<R> {
    /// Time from the first thread's start to the last one's end.
    pub(crate) wall_ns: u64,
    /// CPU time of all threads.
    pub(crate) cpu_ns: u64,
    /// What each thread's work returned.
    pub(crate) results: Vec<R>,
}

/// Runs `work` for each task in a thread of its own; it gets the thread's number and the task. All start together. Thread `n` is
/// pinned to CPU `n` of `cpus`, modulo their number; threads are not pinned if `cpus` is empty.
pub(crate) fn together<T: Send, R: Send>(
    tasks: &mut [T],
    cpus: &[usize],
    work: impl Fn(usize, &mut T) -> R + Sync,
) -> Result<Together<R>, ThreadError> {
    let gate = Gate::new();
    let threads = tasks.len();
    let done = std::thread::scope(|scope| {
        let mut running: Vec<ScopedJoinHandle<'_, Result<Option<Done<R>>, ThreadError>>> =
            Vec::with_capacity(threads);
        for (thread, task) in tasks.iter_mut().enumerate() {
            let cpu = cpus.get(thread % cpus.len().max(1)).copied();
            let (gate, work) = (&gate, &work);
            let run = move || {
                let ready = cpu.map_or(Ok(()), pin);
                let go = gate.wait();
                ready?;
                Ok(go.then(|| Done::of(|| work(thread, task))))
            };
            match Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run) {
                Ok(handle) => running.push(handle),
                Err(source) => {
                    gate.open(false);
                    return Err(ThreadError::Spawn { threads, source });
                }
            }
        }
        gate.wait_for_threads(threads);
        gate.open(true);
        running
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    Ok(Together::of(done.into_iter().flatten().collect()))
}

/// What a thread's work returned, with its start, end and CPU time.
struct Done<R> {
    start: Instant,
    end: Instant,
    cpu_ns: u64,
    result: R,
}

impl<R> Done<R> {
    /// Runs a thread's work and measures its time.
    fn of(work: impl FnOnce() -> R) -> Self {
        let (start, cpu_start_ns) = (Instant::now(), thread_cpu_ns());
        let result = work();
        let (cpu_end_ns, end) = (thread_cpu_ns(), Instant::now());
        Self { start, end, cpu_ns: cpu_end_ns.saturating_sub(cpu_start_ns), result }
    }
}

impl<R> Together<R> {
    /// The time and the results of all threads.
    fn of(done: Vec<Done<R>>) -> Self {
        let start = done.iter().map(|done| done.start).min();
        let end = done.iter().map(|done| done.end).max();
        let wall = start.zip(end).map_or(0, |(start, end)| (end - start).as_nanos());
        Self {
            wall_ns: u64::try_from(wall).unwrap_or(u64::MAX).max(1),
            cpu_ns: done.iter().map(|done| done.cpu_ns).sum(),
            results: done.into_iter().map(|done| done.result).collect(),
        }
    }
}

/// The CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Pins the calling thread to a CPU.
fn pin(cpu: usize) -> Result<(), ThreadError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|source| ThreadError::Pin { cpu, source: source.into() })
}

/// The CPUs that this process may run on.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        // The kernel has more CPUs than the set holds.
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// A start gate: threads sleep until all have arrived and the gate is opened. Unlike a barrier, it can be opened if a
/// thread could not be started.
struct Gate {
    state: Mutex<State>,
    arrived: Condvar,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// After opening: true to work, false to end at once.
    go: Option<bool>,
}

impl Gate {
    fn new() -> Self {
        Self { state: Mutex::default(), arrived: Condvar::new(), opened: Condvar::new() }
    }

    /// Waits until the gate is opened. Returns whether to work.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        self.arrived.notify_one();
        loop {
            if let Some(go) = state.go {
                return go;
            }
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until this number of threads has arrived.
    fn wait_for_threads(&self, threads: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting < threads {
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Opens the gate: threads work if `go`, and end otherwise.
    fn open(&self, go: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).go = Some(go);
        self.opened.notify_all();
    }
}
