//! Percentiles of the latencies of single calls.

use crate::clock::TickClock;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Longer latencies are recorded as this one.
const MAX_NS: u64 = 60_000_000_000;
/// Significant digits of the histogram.
const DIGITS: u8 = 2;
/// A percentile is reported only if this many samples are beyond it, so that no single event decides it.
const BEYOND_MIN: f64 = 5.0;

/// Percentiles of the latencies of one kind of call, in nanoseconds, including the clock's overhead. `None` for percentiles
/// with too few samples beyond them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The number of timed calls.
    pub samples: u64,
    /// Half of the calls are faster.
    pub p50_ns: Option<u64>,
    /// 90 of 100 calls are faster.
    pub p90_ns: Option<u64>,
    /// 99 of 100 calls are faster.
    pub p99_ns: Option<u64>,
    /// 999 of 1,000 calls are faster.
    pub p99_9_ns: Option<u64>,
    /// 9,999 of 10,000 calls are faster.
    pub p99_99_ns: Option<u64>,
    /// The slowest call.
    pub max_ns: Option<u64>,
}

/// A histogram of latencies.
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NS, DIGITS).ok())
    }

    /// Records latencies in ticks of a clock.
    pub(crate) fn record(&mut self, ticks: &[u64], clock: &TickClock) {
        if let Some(histogram) = &mut self.0 {
            ticks.iter().for_each(|ticks| histogram.saturating_record(clock.nanoseconds(*ticks)));
        }
    }

    /// Records a latency.
    pub(crate) fn record_ns(&mut self, ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(ns);
        }
    }

    /// Adds what another histogram recorded.
    pub(crate) fn merge(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Both have the same bounds, so that all values fit.
            let _ = histogram.add(other);
        }
    }

    /// The percentiles of all recorded latencies.
    pub(crate) fn percentiles(&self) -> Latency {
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
        assert_eq!((latencies.percentiles().samples, latencies.percentiles().max_ns), (0, None));
        latencies.record(&vec![1000; 1000], &clock);
        let percentiles = latencies.percentiles();
        assert_eq!(
            (percentiles.samples, percentiles.p50_ns, percentiles.p99_9_ns),
            (1000, percentiles.max_ns, None)
        );
        assert!(percentiles.p99_ns.is_some());
    }
}
