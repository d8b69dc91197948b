//! How long single calls took.

use crate::clock::TickClock;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer calls count as this long.
const MAX_NS: u64 = 60_000_000_000;
/// Of each percentile's value, at least two digits hold.
const DIGITS: u8 = 2;
/// A percentile is told if so many samples are beyond it: fewer would be a single event's.
const BEYOND_MIN: f64 = 5.0;

/// Latencies of calls of one kind, in nanoseconds, the clock's own cost among them. Percentiles that too few samples are
/// beyond are absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// How many calls were timed.
    pub samples: u64,
    /// Half of the calls are faster.
    pub p50_ns: Option<u64>,
    /// 90 of 100 are.
    pub p90_ns: Option<u64>,
    /// 99 of 100 are.
    pub p99_ns: Option<u64>,
    /// 999 of 1,000 are.
    pub p99_9_ns: Option<u64>,
    /// 9,999 of 10,000 are.
    pub p99_99_ns: Option<u64>,
    /// The slowest.
    pub max_ns: Option<u64>,
}

/// Calls recorded so far.
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NS, DIGITS).ok())
    }

    pub(crate) fn record(&mut self, ticks: &[u64], clock: &TickClock) {
        if let Some(histogram) = &mut self.0 {
            ticks.iter().for_each(|ticks| histogram.saturating_record(clock.nanoseconds(*ticks)));
        }
    }

    pub(crate) fn told(&self) -> Latency {
        let samples = self.0.as_ref().map_or(0, Histogram::len);
        let at = |share: f64| {
            let enough = samples as f64 * (1.0 - share) >= BEYOND_MIN;
            self.0.as_ref().filter(|_| enough).map(|histogram| histogram.value_at_quantile(share))
        };
        Latency {
            samples,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p99_9_ns: at(0.999),
            p99_99_ns: at(0.9999),
            max_ns: self.0.as_ref().filter(|_| samples > 0).map(Histogram::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_samples_beyond_them() {
        let clock = TickClock::new();
        let mut latencies = Latencies::new();
        assert_eq!((latencies.told().samples, latencies.told().max_ns), (0, None));
        latencies.record(&vec![1000; 1000], &clock);
        let told = latencies.told();
        assert_eq!((told.samples, told.p50_ns, told.p99_9_ns), (1000, told.max_ns, None));
        assert!(told.p99_ns.is_some());
    }
}
