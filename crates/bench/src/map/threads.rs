//! Benchmark of mapping and unmapping by many threads: what allocation, tables and a host cost, each for itself and together.
//!
//! It is the experiment of T. L. S. Cascardo, "DMA API Performance and Contention on IOMMU Enabled Environments" (2013), by
//! real threads: each maps its own memory and unmaps it, over and over. The code that is measured is that of `dma` and `iova`.
//! Contestants take turns round by round.

mod check;
mod contestant;
mod host;
mod result;
mod tables;
mod untranslated;
mod virtio_iommu;

pub use check::MapCheckError;
pub use contestant::{MapContestant, map_contestants};
pub use result::{MAP_THREADS_SCHEMA, MapCase, MapEntry, MapMeasured, MapThreads, MapThreadsSettings};

use crate::contestant::DIRECT;
use crate::head::{Head, Origin};
use crate::map::PerPair;
use crate::pace::Pace;
use crate::round_time::{PairTimes, RoundTime};
use crate::threads::{ThreadError, allowed_cpus, together};
use crate::{Bytes, HostSummary, Named, warning};
use contestant::Ready;
use dma::{BusAddress, Direction, DmaCounters, DmaError, MemoryAddress};
use std::hint::black_box;
use std::time::Duration;

/// The largest size of a mapping: below the large pages of tables, so that each page has an entry.
const BYTES_MAX: Bytes = Bytes(1 << 20);
/// Pairs of each thread in the first attempt to find out how many fill a round.
const FIRST_PAIRS: u64 = 2;
/// The number of threads that doubles a round's time, because starting them takes longer.
const THREADS_DOUBLING: u64 = 256;
/// A round takes at most about this many times the time that was asked for.
const WALL_TIMES_MAX: u64 = 10;
/// What adapters do with the memory: a receive buffer.
const DIRECTION: Direction = Direction::FromDevice;

/// Why the measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MapThreadsError {
    /// There is no contestant of this name.
    #[error("unknown contestant {name:?}; expected one of {known} (--peer NAME=LIB.so adds others)")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The names of all.
        known: String,
    },
    /// A mapping is too large, or empty.
    #[error("mappings of {0}; expected 1 byte to 1 MiB")]
    Size(Bytes),
    /// A contestant is faulty.
    #[error("{contestant} is faulty; expected one that passes the check before the measurement")]
    Check {
        /// The contestant's name.
        contestant: String,
        /// The fault.
        source: MapCheckError,
    },
    /// Mapping or unmapping failed.
    #[error("{contestant} failed in a round")]
    Call {
        /// The contestant's name.
        contestant: String,
        /// The error.
        source: DmaError,
    },
    /// The counters contradict the pairs that were made.
    #[error("{contestant}: {pairs} pairs counted {found} {what}; expected {expected}")]
    Counters {
        /// The contestant's name.
        contestant: String,
        /// Pairs made.
        pairs: u64,
        /// What was counted.
        what: &'static str,
        /// Its number.
        found: u64,
        /// The number that the pairs need.
        expected: u64,
    },
    /// Threads could not be started or pinned.
    #[error(transparent)]
    Threads(#[from] ThreadError),
}

/// The contestants with these names, in the order of the names; all if there are no names.
///
/// # Errors
/// [`MapThreadsError::Unknown`]
pub fn select_map(all: &[MapContestant], names: &[String]) -> Result<Vec<MapContestant>, MapThreadsError> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    let known = || all.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let found = all.iter().find(|known| known.name == *name).cloned();
        found.ok_or_else(|| MapThreadsError::Unknown { name: name.clone(), known: known() })
    };
    names.iter().map(find).collect()
}

/// Measures all contestants with each number of threads. `progress` gets the number of steps done and of all steps.
///
/// # Errors
/// [`MapThreadsError`]
pub fn run_map_threads(
    contestants: &[MapContestant],
    settings: MapThreadsSettings,
    origin: Origin,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<MapThreads, MapThreadsError> {
    if settings.bytes.0 == 0 || settings.bytes > BYTES_MAX {
        return Err(MapThreadsError::Size(settings.bytes));
    }
    let machine = HostSummary::here();
    let baseline = contestants.iter().find(|one| one.name == DIRECT).or(contestants.first());
    let baseline = baseline.map(|one| one.name.clone()).unwrap_or_default();
    let cpus = allowed_cpus();
    let steps = (settings.threads.len() * (settings.rounds + 1) * contestants.len()) as u64;
    let mut done = 0;
    let mut step = || {
        progress(done, steps);
        done += 1;
    };
    let measure = |threads: &usize| case(contestants, &baseline, &settings, &cpus, *threads, &mut step);
    let cases = settings.threads.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
    let mut head = Head::new(MAP_THREADS_SCHEMA, origin, machine);
    head.warnings = warning::of_machine(&head.machine);
    head.warnings.extend(warning::of_threads(&head.machine, &settings.threads));
    let contestants =
        contestants.iter().map(|one| Named { name: one.name.clone(), what: one.what.clone() }).collect();
    Ok(MapThreads { head, settings, baseline, contestants, cases })
}

/// Measures all contestants with a number of threads.
fn case(
    contestants: &[MapContestant],
    baseline: &str,
    settings: &MapThreadsSettings,
    cpus: &[usize],
    threads: usize,
    step: &mut dyn FnMut(),
) -> Result<MapCase, MapThreadsError> {
    let pinned = if settings.pin { cpus } else { &[] };
    let mut participants = Vec::new();
    for contestant in contestants {
        step();
        participants.push(Participant::prepare(contestant, settings, threads, cpus)?);
    }
    for round in 0..settings.rounds {
        // The order rotates, so that no contestant always runs first.
        for place in 0..participants.len() {
            step();
            let next = (round + place) % contestants.len();
            participants[next].round(pinned)?;
        }
    }
    let cpus = cpus.len().max(1);
    let base = participants.iter().find(|one| one.contestant.name == baseline);
    let entries = participants.iter().map(|one| one.entry(threads.min(cpus), base)).collect();
    Ok(MapCase { threads, cpus, entries })
}

/// A contestant in a case, with its results so far.
struct Participant<'c> {
    contestant: &'c MapContestant,
    prepared: Result<Prepared, String>,
    rounds: Vec<RoundTime>,
}

/// A contestant that passed the check, with its threads' memory.
struct Prepared {
    ready: Ready,
    bytes: u64,
    tasks: Vec<Task>,
    /// Pairs of each thread in a round.
    pairs: u64,
    /// Pairs of all threads, with those of the warm-up.
    pairs_done: u64,
}

/// A thread's memory and counters.
// Threads change them with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
struct Task {
    memory: MemoryAddress,
    /// Where it is mapped, if it stays mapped.
    mapped: Option<BusAddress>,
    /// Where it was mapped last.
    last: BusAddress,
    counters: DmaCounters,
}

impl<'c> Participant<'c> {
    /// Creates a contestant, checks it, and finds how many pairs fill a round.
    fn prepare(
        contestant: &'c MapContestant,
        settings: &MapThreadsSettings,
        threads: usize,
        cpus: &[usize],
    ) -> Result<Self, MapThreadsError> {
        let pinned = if settings.pin { cpus } else { &[] };
        let ready = match contestant.prepare(settings.bytes.0) {
            Ok(ready) => ready,
            Err(why) => return Ok(Self { contestant, prepared: Err(why.to_string()), rounds: Vec::new() }),
        };
        let faulty = |source| MapThreadsError::Check { contestant: contestant.name.clone(), source };
        check::check(&ready, settings.bytes.0)?.map_err(faulty)?;
        let mut prepared =
            Prepared::new(ready, settings.bytes.0, threads).map_err(|why| faulty(why.into()))?;
        match settings.pairs {
            Some(pairs) => prepared.pairs = (pairs / threads as u64).max(1),
            None => {
                let round_ms = settings.round_ms * (THREADS_DOUBLING + threads as u64) / THREADS_DOUBLING;
                let mut pace = Pace::from(FIRST_PAIRS);
                pace.warm(round_ms, |pairs| {
                    prepared.pairs = pairs;
                    let round = prepared.work(contestant, pinned)?;
                    Ok::<_, MapThreadsError>(worked(&round, threads.min(cpus.len().max(1))))
                })?;
            }
        }
        Ok(Self { contestant, prepared: Ok(prepared), rounds: Vec::new() })
    }

    /// Measures and records a round.
    fn round(&mut self, pinned: &[usize]) -> Result<(), MapThreadsError> {
        if let Ok(prepared) = &mut self.prepared {
            self.rounds.push(prepared.work(self.contestant, pinned)?);
        }
        Ok(())
    }

    /// The participant's results; `base` is the baseline.
    fn entry(&self, cpus: usize, base: Option<&Self>) -> MapEntry {
        let contestant = self.contestant.name.clone();
        match &self.prepared {
            Err(why) => MapEntry { contestant, absent: Some(why.clone()), measured: None },
            Ok(prepared) => {
                MapEntry { contestant, absent: None, measured: self.measured(prepared, cpus, base) }
            }
        }
    }

    /// The measured figures; `None` without rounds.
    fn measured(&self, prepared: &Prepared, cpus: usize, base: Option<&Self>) -> Option<MapMeasured> {
        let PairTimes { ns_per_pair, cpu_ns_per_pair, pairs_per_second, over_baseline, cpu_over_baseline } =
            PairTimes::of(&self.rounds, cpus, base.map(|base| base.rounds.as_slice()))?;
        Some(MapMeasured {
            ns_per_pair,
            cpu_ns_per_pair,
            pairs_per_second,
            over_baseline,
            cpu_over_baseline,
            per_pair: PerPair::of_pairs(&prepared.counters(), prepared.pairs_done),
            pairs_per_thread: prepared.pairs,
            rounds: self.rounds.clone(),
        })
    }
}

impl Prepared {
    /// Gives each thread its memory, and maps that if it stays mapped.
    fn new(ready: Ready, bytes: u64, threads: usize) -> Result<Self, DmaError> {
        let task = |thread| {
            let memory = Ready::memory(thread, bytes);
            let map = || ready.mapper.map(memory, bytes, DIRECTION, &mut DmaCounters::default());
            let mapped = ready.is_once.then(map).transpose()?;
            Ok(Task { memory, mapped, last: BusAddress(0), counters: DmaCounters::default() })
        };
        let tasks = (0..threads).map(task).collect::<Result<_, DmaError>>()?;
        Ok(Self { ready, bytes, tasks, pairs: FIRST_PAIRS, pairs_done: 0 })
    }

    /// What all threads counted, and the host.
    fn counters(&self) -> DmaCounters {
        let mut sum = DmaCounters::default();
        self.tasks.iter().for_each(|task| sum += task.counters);
        sum
    }

    /// Runs a round in all threads, and checks what it counted and left.
    fn work(&mut self, contestant: &MapContestant, pinned: &[usize]) -> Result<RoundTime, MapThreadsError> {
        let (before, (host_before, _)) = (self.counters(), self.ready.served());
        let Self { ready, bytes, tasks, pairs, .. } = self;
        let (pairs, bytes) = (*pairs, *bytes);
        let done = together(tasks, pinned, |_, task| task.work(ready, bytes, pairs))?;
        let failed = |source| MapThreadsError::Call { contestant: contestant.name.clone(), source };
        done.results.into_iter().collect::<Result<(), _>>().map_err(failed)?;
        let all = pairs * self.tasks.len() as u64;
        self.pairs_done += all;
        let faulty = |source| MapThreadsError::Check { contestant: contestant.name.clone(), source };
        if !self.ready.is_once {
            let mut tasks = self.tasks.iter();
            tasks.try_for_each(|task| check::check_unmapped(&self.ready, task.last)).map_err(faulty)?;
        }
        // The first task takes what the host counted: which thread's requests it served, the host does not know.
        let (mut host, refused) = self.ready.served();
        host = host - host_before;
        if let Some(task) = self.tasks.first_mut() {
            task.counters.table_entries += host.table_entries;
            task.counters.table_pages += host.table_pages;
        }
        self.check_counters(self.counters() - before, refused, all).map_err(|counted| {
            let Counted { what, found, expected } = counted;
            MapThreadsError::Counters {
                contestant: contestant.name.clone(),
                pairs: all,
                what,
                found,
                expected,
            }
        })?;
        Ok(RoundTime { pairs: all, wall_ns: done.wall_ns, cpu_ns: done.cpu_ns })
    }

    /// Checks that a round counted what its pairs need.
    fn check_counters(&self, counters: DmaCounters, refused: u64, pairs: u64) -> Result<(), Counted> {
        let expected = self.ready.per_pair;
        let mappings = if self.ready.is_once { 0 } else { pairs };
        let all = [
            ("mappings", counters.mappings, mappings),
            ("unmappings", counters.unmappings, mappings),
            ("allocations", counters.allocations, expected.allocations * pairs),
            ("table entries", counters.table_entries, expected.table_entries * pairs + counters.table_pages),
            ("hypercalls", counters.hypercalls, expected.hypercalls * pairs),
            ("invalidations", counters.invalidations, expected.invalidations * pairs),
            ("refused requests", refused, 0),
        ];
        let wrong = all.into_iter().find(|(_, found, expected)| found != expected);
        wrong.map_or(Ok(()), |(what, found, expected)| Err(Counted { what, found, expected }))
    }
}

/// How long a round worked: the CPU time of its threads, so that a busy machine's other programs don't fill it. Threads that
/// sleep for most of a round don't make it endless.
fn worked(round: &RoundTime, cpus: usize) -> Duration {
    Duration::from_nanos((round.cpu_ns / cpus as u64).max(round.wall_ns / WALL_TIMES_MAX))
}

/// A count that is wrong.
struct Counted {
    what: &'static str,
    found: u64,
    expected: u64,
}

impl Task {
    /// Maps and unmaps, or hands over what stays mapped.
    fn work(&mut self, ready: &Ready, bytes: u64, pairs: u64) -> Result<(), DmaError> {
        let Self { memory, mapped, last, counters } = self;
        let mapper = &ready.mapper;
        for _ in 0..pairs {
            match *mapped {
                Some(at) => {
                    mapper.sync_for_cpu(black_box(at), 0, bytes, DIRECTION, counters)?;
                    mapper.sync_for_device(black_box(at), 0, bytes, DIRECTION, counters)?;
                }
                None => {
                    let at = mapper.map(*memory, bytes, DIRECTION, counters)?;
                    mapper.unmap(black_box(at), bytes, DIRECTION, counters)?;
                    *last = at;
                }
            }
        }
        Ok(())
    }
}
