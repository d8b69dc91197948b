//! The document `iotoll.bench/1` with the results of a run.

use crate::head::Head;
use crate::host_summary::HostSummary;
use crate::latency::Latency;
use crate::round_time::RoundTime;
use crate::scenario::Scenario;
use crate::summary::Summary;
use serde::Serialize;
use std::ops::RangeInclusive;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const SCHEMA: &str = "iotoll.bench/1";

/// The results of a run, with all rounds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Benchmark {
    /// The document's head, with the schema [`SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The clock that timed single calls.
    pub clock: Clock,
    /// The settings of the run.
    pub settings: Settings,
    /// The name of the contestant that the others are compared with.
    pub baseline: String,
    /// The measured allocators.
    pub contestants: Vec<Named>,
    /// The results of each scenario with each number of threads.
    pub cases: Vec<Case>,
}

/// A name and its description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// The name.
    pub name: String,
    /// The one-line description.
    pub what: String,
}

/// The clock that timed single calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clock {
    /// Its name.
    pub name: &'static str,
    /// The overhead that it adds to each latency.
    pub overhead_ns: f64,
    /// One call in this many was timed.
    pub sample_every: u32,
}

/// By default up to 4 threads per CPU.
const THREADS_PER_CPU: usize = 4;
/// Sizes of a space: 64 Ki pages at least, and all addresses there are at most.
const BITS: RangeInclusive<u32> = 28..=64;
/// The largest window of the scenarios that fill it.
const FULL_BITS_MAX: u32 = 32;

/// A setting whose value is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {value}; expected {expected}")]
pub struct InvalidSetting {
    /// Its name, a field of [`Settings`].
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// Values that it can have.
    pub expected: &'static str,
}

impl InvalidSetting {
    fn new(name: &'static str, value: impl ToString, expected: &'static str) -> Self {
        Self { name, value: value.to_string(), expected }
    }
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// Numbers of threads, one case each.
    pub threads: Vec<usize>,
    /// Measured rounds; the scenario `drift` has at least 16.
    pub rounds: usize,
    /// Milliseconds of a round; more with many threads.
    pub round_ms: u64,
    /// Pairs of calls of all threads in a round, instead of as many as fill its time.
    pub pairs: Option<u64>,
    /// Ranges that a thread holds, in scenarios that hold ranges.
    pub held: u64,
    /// Pages of a burst.
    pub burst: u64,
    /// Bits of an address: the size of the space.
    pub bits: u32,
    /// Bits of an address in the scenarios `full` and `full-large`, which fill the space.
    pub full_bits: u32,
    /// Whether each thread is pinned to a CPU.
    pub pin: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for Settings {
    /// A run that takes minutes.
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
    /// The largest number of threads.
    pub const THREADS_MAX: usize = 1024;

    /// The defaults for this machine: numbers of threads are powers of two up to 4 per CPU, to measure threads that share one, too. With
    /// `quick` they are 1 and the number of CPUs, and rounds are as in [`quick`](Self::quick).
    pub fn of_this_machine(quick: bool) -> Self {
        let cpus = HostSummary::here().cpus;
        if quick {
            return Self { threads: vec![1, cpus.max(2)], ..Self::default() }.quick();
        }
        let most = (cpus * THREADS_PER_CPU).next_power_of_two();
        let threads = (0..).map(|power| 1 << power).take_while(|threads| *threads <= most).collect();
        Self { threads, ..Self::default() }
    }

    /// The same settings with another size of the space. Scenarios that fill it stay below a size at which they would take too long.
    pub fn with_bits(self, bits: u32) -> Self {
        Self { bits, full_bits: bits.min(FULL_BITS_MAX).min(self.full_bits), ..self }
    }

    /// Fails if a setting has a value with which nothing can be measured.
    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        let counts = [
            ("rounds", self.rounds as u64),
            ("round_ms", self.round_ms),
            ("pairs", self.pairs.unwrap_or(1)),
            ("held", self.held),
            ("burst", self.burst),
        ];
        let zero = counts.into_iter().find(|(_, count)| *count == 0);
        let zero = zero.map(|(name, count)| InvalidSetting::new(name, count, "1 or more"));
        let is_number = |threads: &&usize| (1..=Self::THREADS_MAX).contains(*threads);
        let threads = self.threads.iter().find(|threads| !is_number(threads));
        let threads = threads.map(|threads| InvalidSetting::new("threads", threads, "1 to 1024"));
        let bits = (!BITS.contains(&self.bits)).then(|| InvalidSetting::new("bits", self.bits, "28 to 64"));
        zero.or(threads).or(bits).map_or(Ok(()), Err)
    }

    /// The same settings with fewer and shorter rounds, for a run that takes seconds.
    pub fn quick(self) -> Self {
        Self { rounds: 5, round_ms: 4, full_bits: self.full_bits.min(28), ..self }
    }
}

/// The results of a scenario with a number of threads.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Case {
    /// The scenario.
    pub scenario: Scenario,
    /// A description of the scenario.
    pub what: String,
    /// The sizes of requests and their source.
    pub sizes: String,
    /// The number of threads.
    pub threads: usize,
    /// CPUs that the threads may use.
    pub cpus: usize,
    /// In scenarios with a queue between threads: the time of the queue alone, measured with `direct`.
    pub queue_ns_per_pair: Option<f64>,
    /// The results of each contestant, in the order of the document's contestants.
    pub entries: Vec<Entry>,
}

/// The results of a contestant in a case.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// The contestant's name.
    pub contestant: String,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// The measured figures.
    pub measured: Option<Measured>,
}

/// The figures of a contestant in a case.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Elapsed time x CPUs in use / pairs. It does not depend on the number of threads if no thread waits for another.
    pub ns_per_pair: Summary,
    /// CPU time / pairs, without time on the run queue or asleep on a lock.
    pub cpu_ns_per_pair: Summary,
    /// Pairs of all threads per second.
    pub pairs_per_second: Summary,
    /// The ratio of `ns_per_pair` to the baseline's, by round.
    pub over_baseline: Option<Summary>,
    /// The ratio of `cpu_ns_per_pair` to the baseline's, by round. It stays valid on a busy host.
    pub cpu_over_baseline: Option<Summary>,
    /// Latency of allocations.
    pub allocate: Latency,
    /// Latency of frees.
    pub free: Latency,
    /// The allocator's memory after the last round.
    pub memory_bytes: Option<u64>,
    /// Pages in the allocator's caches after the last round.
    pub cached_pages: Option<u64>,
    /// Allocations that failed although pages were free, during filling, warm-up and all rounds.
    pub failed: u64,
    /// Frees that failed, during filling, warm-up and all rounds.
    pub refused: u64,
    /// Pairs of each thread in a round.
    pub pairs_per_thread: u64,
    /// All rounds, in order of time.
    pub rounds: Vec<Round>,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Round {
    /// Pairs of an allocation and a free, of all threads.
    pub pairs: u64,
    /// Time from the first thread's start to the last one's end.
    pub wall_ns: u64,
    /// CPU time of all threads.
    pub cpu_ns: u64,
    /// Failed allocations.
    pub failed: u64,
    /// Pages in caches at its end, if the contestant reports them.
    pub cached_pages: Option<u64>,
}

impl Round {
    /// Elapsed time of an allocation and its free, times the number of CPUs, in nanoseconds.
    pub fn ns_per_pair(&self, cpus: usize) -> f64 {
        self.time().ns_per_pair(cpus)
    }

    /// Its pairs and times.
    pub(crate) fn time(&self) -> RoundTime {
        let Self { pairs, wall_ns, cpu_ns, .. } = *self;
        RoundTime { pairs, wall_ns, cpu_ns }
    }
}

impl Case {
    /// The number of CPUs that its threads use at once.
    pub fn cpus_used(&self) -> usize {
        self.threads.min(self.cpus)
    }
}
