//! Measures contention between two CPUs: the time that a cache line takes from one to the other, and an allocator's time
//! per pair of calls with one thread and with two.
//!
//!     cargo run --release -p iotoll-bench --example two_cpus [ROUNDS]
//!
//! A virtual machine's CPUs may be near each other or far apart, and may migrate while it runs. Each round therefore
//! measures the cache line first and then all allocators. Times are medians of short batches, so that interrupts affect
//! few of them.

use bench::{built_in_contestants, select};
use iova::{AllocateError, Allocator, FreeError, Range, Request, Space, Usage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// The measured allocators. Those in `FAIR` are also measured behind a fair lock: Linux's spin locks are fair, the
/// allocators' own locks are not.
const NAMES: [&str; 5] = ["direct", "magazine", "pool", "bitmap", "rbtree"];
const FAIR: [&str; 3] = ["direct", "bitmap", "rbtree"];
const ROUNDS: usize = 60;
/// Pairs of calls, or round trips of the line, in a batch.
const BATCH: u64 = 100;
const PHASE: Duration = Duration::from_millis(4);
/// The distance of two CPUs by the line's largest time in ns: threads of a core, cores that share a cache, others. Longer
/// times are interrupted measurements.
const DISTANCES: [(&str, f64); 3] = [("of one core", 24.0), ("of one group", 80.0), ("of two groups", 400.0)];

struct Round {
    line_ns: f64,
    /// Time per pair for each allocator, with one thread and with two.
    pair_ns: Vec<[f64; 2]>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |text| text.parse())?;
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(2).collect();
    let [first, second] = cpus[..] else { return Err("two CPUs are needed".into()) };
    let space = Space::new(1, 0xf_ffff);
    let make = |names: &[&str]| -> Result<Vec<Box<dyn Allocator + Send + Sync>>, Box<dyn Error>> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Ok(select(&built_in_contestants(), &names)?
            .iter()
            .map(|one| one.allocator(&space))
            .collect::<Result<_, _>>()?)
    };
    let mut made = make(&NAMES)?;
    made.extend(make(&FAIR)?.into_iter().map(|within| Box::new(Fair::new(within)) as Box<_>));
    let names: Vec<String> = NAMES
        .iter()
        .map(|&name| name.to_owned())
        .chain(FAIR.iter().map(|name| format!("{name}, fair lock")))
        .collect();
    let round = || Round {
        line_ns: line_ns([first, second]),
        pair_ns: made
            .iter()
            .map(|one| [pairs_ns(one.as_ref(), &[first]), pairs_ns(one.as_ref(), &[first, second])])
            .collect(),
    };
    let rounds: Vec<Round> = (0..rounds).map(|_| round()).collect();
    let mut from = 0.0;
    for (place, to) in DISTANCES {
        let here = rounds.iter().filter(|round| (from..to).contains(&round.line_ns));
        print_rounds(place, &names, &here.collect::<Vec<_>>());
        from = to;
    }
    Ok(())
}

/// Prints the quartiles of all rounds with CPUs at one distance.
fn print_rounds(place: &str, names: &[String], rounds: &[&Round]) {
    if rounds.is_empty() {
        return;
    }
    let line = quartiles(rounds.iter().map(|round| round.line_ns).collect());
    println!(
        "CPUs {place}: {} rounds; lower quartile, median and upper one in ns; line {line}",
        rounds.len()
    );
    for (index, name) in names.iter().enumerate() {
        let of =
            |threads: usize| quartiles(rounds.iter().map(|round| round.pair_ns[index][threads]).collect());
        let gains = rounds.iter().map(|round| 2.0 * round.pair_ns[index][0] / round.pair_ns[index][1]);
        println!("  {name:18} 1 thread {}; 2 threads {}; gain {}", of(0), of(1), quartiles(gains.collect()));
    }
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    let at = |quarter: usize| all.get(all.len() * quarter / 4).copied().unwrap_or(f64::NAN);
    format!("{:.2} {:.2} {:.2}", at(1), at(2), at(3))
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Without pinning the measurement is less exact, but still valid.
    let _ = sched_setaffinity(None, &set);
}

/// A word without neighbours: CPUs fetch cache lines in pairs.
#[repr(align(128))]
struct Line(AtomicU64);

/// The one-way time of a cache line between two CPUs: they write it in turn, and a round trip takes twice as long.
fn line_ns([first, second]: [usize; 2]) -> f64 {
    const LAST: u64 = u64::MAX;
    let line = Line(AtomicU64::new(0));
    let mut batches = Vec::new();
    scope(|scope| {
        scope.spawn(|| {
            pin(second);
            loop {
                match line.0.load(Ordering::Acquire) {
                    LAST => break,
                    odd if odd % 2 == 1 => line.0.store(odd + 1, Ordering::Release),
                    _ => std::hint::spin_loop(),
                }
            }
        });
        scope.spawn(|| {
            pin(first);
            let mut turn = 0;
            let start = Instant::now();
            while start.elapsed() < PHASE {
                let batch = Instant::now();
                for _ in 0..BATCH {
                    line.0.store(turn + 1, Ordering::Release);
                    turn += 2;
                    while line.0.load(Ordering::Acquire) != turn {
                        std::hint::spin_loop();
                    }
                }
                batches.push(batch.elapsed().as_nanos() as f64 / BATCH as f64 / 2.0);
            }
            line.0.store(LAST, Ordering::Release);
        });
    });
    median(batches)
}

/// An allocator's time per pair of calls, with one thread on each of `cpus`: the median of batches.
fn pairs_ns(allocator: &dyn Allocator, cpus: &[usize]) -> f64 {
    let (ready, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = |cpu: usize| {
        pin(cpu);
        let request = Request { memory: 512, ..Request::size_aligned(1, 0xf_ffff) };
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < cpus.len() as u64 {
            std::hint::spin_loop();
        }
        let (start, mut batches) = (Instant::now(), Vec::new());
        // All threads work until the first has finished, so that no batch runs alone.
        while !done.load(Ordering::Relaxed) {
            let batch = Instant::now();
            for _ in 0..BATCH {
                if let Ok(page) = allocator.allocate(&request) {
                    let _ = allocator.free(request.range(page));
                }
            }
            batches.push(batch.elapsed().as_nanos() as f64 / BATCH as f64);
            if start.elapsed() > PHASE {
                done.store(true, Ordering::Relaxed);
            }
        }
        batches
    };
    scope(|scope| {
        let work = &work;
        let running: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || work(cpu))).collect();
        median(running.into_iter().filter_map(|one| one.join().ok()).flatten().collect())
    })
}

/// An allocator behind a ticket lock, which threads get in the order in which they requested it. Both counters are on one
/// cache line, as in Linux's ticket spin locks.
struct Fair {
    lock: Tickets,
    within: Box<dyn Allocator + Send + Sync>,
}

#[repr(align(128))]
struct Tickets {
    next: AtomicU32,
    serving: AtomicU32,
}

impl Fair {
    fn new(within: Box<dyn Allocator + Send + Sync>) -> Self {
        Self { lock: Tickets { next: AtomicU32::new(0), serving: AtomicU32::new(0) }, within }
    }

    fn locked<T>(&self, work: impl FnOnce(&dyn Allocator) -> T) -> T {
        let ticket = self.lock.next.fetch_add(1, Ordering::Relaxed);
        while self.lock.serving.load(Ordering::Acquire) != ticket {
            std::hint::spin_loop();
        }
        let done = work(self.within.as_ref());
        self.lock.serving.store(ticket.wrapping_add(1), Ordering::Release);
        done
    }
}

impl Allocator for Fair {
    fn allocate(&self, request: &Request) -> Result<u64, AllocateError> {
        self.locked(|within| within.allocate(request))
    }

    fn free(&self, range: Range) -> Result<(), FreeError> {
        self.locked(|within| within.free(range))
    }

    fn usage(&self) -> Usage {
        self.within.usage()
    }
}
