//! The time of a round of pairs of calls, and its figures over rounds.

use crate::Summary;
use serde::{Deserialize, Serialize};

/// Pairs of calls in a round, and what they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoundTime {
    /// Pairs of two calls, as of a mapping and an unmapping, of all threads.
    pub pairs: u64,
    /// Time from the first thread's start to the last one's end.
    pub wall_ns: u64,
    /// CPU time of all threads that make the calls.
    pub cpu_ns: u64,
}

impl RoundTime {
    /// Elapsed time of a pair, times the number of CPUs, in nanoseconds.
    pub fn ns_per_pair(&self, cpus: usize) -> f64 {
        self.wall_ns as f64 * cpus as f64 / self.pairs.max(1) as f64
    }

    /// CPU time of a pair, in nanoseconds.
    pub fn cpu_ns_per_pair(&self) -> f64 {
        self.cpu_ns as f64 / self.pairs.max(1) as f64
    }

    fn pairs_per_second(&self) -> f64 {
        self.pairs as f64 * 1e9 / self.wall_ns as f64
    }
}

/// The figures of all rounds.
pub(crate) struct PairTimes {
    pub(crate) ns_per_pair: Summary,
    pub(crate) cpu_ns_per_pair: Summary,
    pub(crate) pairs_per_second: Summary,
    /// Ratios to the baseline's, round by round.
    pub(crate) over_baseline: Option<Summary>,
    pub(crate) cpu_over_baseline: Option<Summary>,
}

impl PairTimes {
    /// Summarises rounds on so many CPUs, and compares each with the baseline's of the same turn. `None` without rounds.
    pub(crate) fn of(rounds: &[RoundTime], cpus: usize, baseline: Option<&[RoundTime]>) -> Option<Self> {
        let of = |value: &dyn Fn(&RoundTime) -> f64| Summary::of(rounds.iter().map(value));
        let over = |value: &dyn Fn(&RoundTime) -> f64| {
            Summary::of(rounds.iter().zip(baseline?).map(|(own, base)| value(own) / value(base)))
        };
        let wall = |round: &RoundTime| round.ns_per_pair(cpus);
        Some(Self {
            ns_per_pair: of(&wall)?,
            cpu_ns_per_pair: of(&RoundTime::cpu_ns_per_pair)?,
            pairs_per_second: of(&RoundTime::pairs_per_second)?,
            over_baseline: over(&wall),
            cpu_over_baseline: over(&RoundTime::cpu_ns_per_pair),
        })
    }
}
