//! How often something is done in a round, and what it took.

use crate::summary::Summary;
use std::time::Duration;

/// Of the first attempt to find out how often fits in a round, unless it is given.
const FIRST_TIMES: u64 = 16;

/// How often something is done in a round, and what each took, round by round.
#[derive(Debug)]
pub(crate) struct Pace {
    times: u64,
    each_ns: Vec<f64>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self::from(FIRST_TIMES)
    }

    /// For what takes long: it begins with so many.
    pub(crate) fn from(times: u64) -> Self {
        Self { times, each_ns: Vec::new() }
    }

    /// Works until a round takes its time.
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

    /// A round that counts.
    pub(crate) fn round<E>(&mut self, work: impl FnOnce(u64) -> Result<Duration, E>) -> Result<(), E> {
        let took = work(self.times)?;
        self.each_ns.push(took.as_nanos() as f64 / self.times as f64);
        Ok(())
    }

    /// What each took, of all rounds, divided by `parts`.
    pub(crate) fn each_ns(&self, parts: f64) -> Option<Summary> {
        Summary::of(self.each_ns.iter().map(|ns| ns / parts))
    }
}
