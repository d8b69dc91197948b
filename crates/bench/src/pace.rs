//! Finds how many repetitions fill a round, and records the time of each round.

use crate::summary::Summary;
use std::time::Duration;

/// Repetitions of the first attempt, unless the caller gives them.
const FIRST_TIMES: u64 = 16;

/// The number of repetitions in a round, and the time per repetition of each round.
#[derive(Debug)]
pub(crate) struct Pace {
    times: u64,
    each_ns: Vec<f64>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self::from(FIRST_TIMES)
    }

    /// Starts the search with this number of repetitions, for slow work.
    pub(crate) fn from(times: u64) -> Self {
        Self { times, each_ns: Vec::new() }
    }

    /// Warms up: runs `work` with more and more repetitions, until a round takes at least half of `round_ms`.
    pub(crate) fn warm<E>(
        &mut self,
        round_ms: u64,
        mut work: impl FnMut(u64) -> Result<Duration, E>,
    ) -> Result<(), E> {
        let wanted = Duration::from_millis(round_ms);
        loop {
            let took = work(self.times)?;
            if took >= wanted / 2 {
                return Ok(());
            }
            let more = wanted.as_nanos() as u64 / (took.as_nanos() as u64 / self.times).max(1);
            self.times = more.clamp(self.times * 2, self.times * 64);
        }
    }

    /// Runs and records a round.
    pub(crate) fn round<E>(&mut self, work: impl FnOnce(u64) -> Result<Duration, E>) -> Result<(), E> {
        let took = work(self.times)?;
        self.each_ns.push(took.as_nanos() as f64 / self.times as f64);
        Ok(())
    }

    /// The time per repetition over all rounds, divided by `parts`; `None` without rounds.
    pub(crate) fn each_ns(&self, parts: f64) -> Option<Summary> {
        Summary::of(self.each_ns.iter().map(|ns| ns / parts))
    }
}
