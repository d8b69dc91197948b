//! The document `iotoll.bench-map-threads/1` with the results of a run.

use crate::head::Head;
use crate::map::PerPair;
use crate::round_time::RoundTime;
use crate::{Bytes, Named, Summary};
use serde::Serialize;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
///
/// It is not [`MAP_SCHEMA`](crate::MAP_SCHEMA): there a row is a DMA path by sizes in one thread, here a case is a number of
/// threads by contestants, with rounds and ratios.
pub const MAP_THREADS_SCHEMA: &str = "iotoll.bench-map-threads/1";

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapThreadsSettings {
    /// Numbers of threads, one case each.
    pub threads: Vec<usize>,
    /// The size of each mapping.
    pub bytes: Bytes,
    /// Measured rounds.
    pub rounds: usize,
    /// Milliseconds of a round; more with many threads.
    pub round_ms: u64,
    /// Pairs of all threads in a round, instead of as many as fill its time.
    pub pairs: Option<u64>,
    /// Whether each thread is pinned to a CPU.
    pub pin: bool,
}

impl Default for MapThreadsSettings {
    /// One thread and two, in seconds.
    fn default() -> Self {
        Self { threads: vec![1, 2], bytes: Bytes(4096), rounds: 9, round_ms: 5, pairs: None, pin: false }
    }
}

/// The results of a run, with all rounds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapThreads {
    /// The document's head, with the schema [`MAP_THREADS_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: MapThreadsSettings,
    /// The name of the contestant that the others are compared with.
    pub baseline: String,
    /// What was measured.
    pub contestants: Vec<Named>,
    /// The results with each number of threads.
    pub cases: Vec<MapCase>,
}

/// The results with a number of threads.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapCase {
    /// The number of threads that map.
    pub threads: usize,
    /// CPUs that the threads may use.
    pub cpus: usize,
    /// The results of each contestant, in the order of the document's contestants.
    pub entries: Vec<MapEntry>,
}

/// The results of a contestant in a case.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapEntry {
    /// The contestant's name.
    pub contestant: String,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// The measured figures.
    pub measured: Option<MapMeasured>,
}

/// The figures of a contestant in a case.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapMeasured {
    /// Elapsed time x CPUs in use / pairs. It does not depend on the number of threads if no thread waits for another.
    pub ns_per_pair: Summary,
    /// CPU time of the threads that map / pairs; without that of a thread that plays the host.
    pub cpu_ns_per_pair: Summary,
    /// Pairs of all threads per second.
    pub pairs_per_second: Summary,
    /// The ratio of `ns_per_pair` to the baseline's, by round.
    pub over_baseline: Option<Summary>,
    /// The ratio of `cpu_ns_per_pair` to the baseline's, by round.
    pub cpu_over_baseline: Option<Summary>,
    /// Operations of one mapping and its unmapping, over warm-up and all rounds.
    pub per_pair: PerPair,
    /// Pairs of each thread in a round.
    pub pairs_per_thread: u64,
    /// All rounds, in order of time.
    pub rounds: Vec<RoundTime>,
}
