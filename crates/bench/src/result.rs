//! What a run found out: the document `iotoll.bench/1`.

use crate::head::Head;
use crate::latency::Latency;
use crate::scenario::Scenario;
use crate::summary::Summary;
use serde::Serialize;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const SCHEMA: &str = "iotoll.bench/1";

/// A run with all its rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Benchmark {
    /// What it is, of [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// What single calls were timed with.
    pub clock: Clock,
    /// What was asked for.
    pub settings: Settings,
    /// Whom the others are measured against.
    pub baseline: String,
    /// Who took part.
    pub contestants: Vec<Named>,
    /// Each scenario with each number of threads.
    pub cases: Vec<Case>,
}

/// A name and what is meant by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The name.
    pub name: String,
    /// What it is.
    pub what: String,
}

/// What single calls were timed with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Clock {
    /// Which one.
    pub name: &'static str,
    /// What it adds to each latency.
    pub overhead_ns: f64,
    /// One call in this many was timed.
    pub sample_every: u32,
}

/// What is measured, and how long.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// What threads do.
    pub scenarios: Vec<Scenario>,
    /// How many threads, one case each.
    pub threads: Vec<usize>,
    /// Rounds that count; of the scenario `drift` 16 at least.
    pub rounds: usize,
    /// How long a round is to take; with many threads it is longer.
    pub round_ms: u64,
    /// Allocations and frees of all threads in a round, instead of as many as take its time.
    pub pairs: Option<u64>,
    /// Ranges that a thread holds, where the scenario holds any.
    pub held: u64,
    /// Pages of a burst.
    pub burst: u64,
    /// The window: addresses of so many bits.
    pub bits: u32,
    /// The window of the scenario `full`, which is filled.
    pub full_bits: u32,
    /// Whether threads keep to a CPU each.
    pub pin: bool,
    /// Of all random choices.
    pub seed: u64,
}

impl Default for Settings {
    /// A run of minutes.
    fn default() -> Self {
        Self {
            scenarios: Scenario::ALL.to_vec(),
            threads: vec![1, 2, 4, 8],
            rounds: 11,
            round_ms: 50,
            pairs: None,
            held: 256,
            burst: 64,
            bits: 32,
            full_bits: 32,
            pin: false,
            seed: 1,
        }
    }
}

impl Settings {
    /// A run of seconds: what else is asked for stays.
    pub fn quick(self) -> Self {
        Self { rounds: 5, round_ms: 4, full_bits: self.full_bits.min(28), ..self }
    }
}

/// A scenario with a number of threads.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    /// The scenario.
    pub scenario: Scenario,
    /// What is done.
    pub what: String,
    /// Sizes of requests, with their source.
    pub sizes: String,
    /// How many threads.
    pub threads: usize,
    /// CPUs that they could use.
    pub cpus: usize,
    /// Where ranges are handed over: what handing over takes by itself, measured with `direct`.
    pub queue_ns_per_pair: Option<f64>,
    /// How each contestant did, in the order of the document's contestants.
    pub entries: Vec<Entry>,
}

/// A contestant in a case.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Its name.
    pub contestant: String,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// What was measured.
    pub measured: Option<Measured>,
}

/// What was measured of a contestant in a case.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Elapsed time x CPUs in use / pairs: the same for any number of threads where nobody waits for anybody.
    pub ns_per_pair: Summary,
    /// CPU time / pairs: without the time that others had the CPU, and without sleeping on a lock.
    pub cpu_ns_per_pair: Summary,
    /// Pairs of all threads in a second.
    pub pairs_per_second: Summary,
    /// Time over that of the baseline, round by round.
    pub over_baseline: Option<Summary>,
    /// CPU time over that of the baseline, round by round: what holds where others use the CPUs too.
    pub cpu_over_baseline: Option<Summary>,
    /// How long allocations took.
    pub allocate: Latency,
    /// How long frees took.
    pub free: Latency,
    /// Memory that the allocator takes after the last round.
    pub memory_bytes: Option<u64>,
    /// Pages that it keeps in caches then.
    pub cached_pages: Option<u64>,
    /// Allocations that got nothing although there was room: of filling, warming up, and all rounds.
    pub failed: u64,
    /// Frees that were not taken, of the same.
    pub refused: u64,
    /// Pairs of each thread that a round was made of.
    pub pairs_per_thread: u64,
    /// Round by round, in order of time.
    pub rounds: Vec<Round>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Round {
    /// Allocations and frees of all threads, by two.
    pub pairs: u64,
    /// From the first thread's start to the last one's end.
    pub wall_ns: u64,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// Allocations that got nothing.
    pub failed: u64,
    /// Pages in caches at its end, where the contestant tells.
    pub cached_pages: Option<u64>,
}

impl Round {
    /// Elapsed time of so many CPUs for a pair.
    pub fn ns_per_pair(&self, cpus: usize) -> f64 {
        self.wall_ns as f64 * cpus as f64 / self.pairs.max(1) as f64
    }
}

impl Case {
    /// CPUs that its threads can use at once.
    pub fn cpus_used(&self) -> usize {
        self.threads.min(self.cpus)
    }
}
