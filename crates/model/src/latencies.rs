//! Latency statistics.

use des::{Misuse, RunningStats, Span, SpanHistogram};

/// Latencies, with their mean and quantiles.
#[derive(Debug)]
pub(crate) struct Latencies {
    histogram: SpanHistogram,
    stats: RunningStats,
}

impl Latencies {
    /// # Errors
    /// [`Misuse`], never with three digits.
    pub(crate) fn new() -> Result<Self, Misuse> {
        Ok(Self { histogram: SpanHistogram::new(3)?, stats: RunningStats::default() })
    }

    pub(crate) fn record(&mut self, latency: Span) {
        self.histogram.record(latency);
        self.stats.add(latency.as_ps_f64());
    }

    /// Forgets all latencies.
    pub(crate) fn clear(&mut self) {
        self.histogram.clear();
        self.stats = RunningStats::default();
    }

    pub(crate) fn per_second(&self, seconds: f64) -> f64 {
        self.stats.count() as f64 / seconds
    }

    /// Mean; zero without latencies.
    pub(crate) fn mean(&self) -> Span {
        Span::from_ps_f64(self.stats.mean().unwrap_or_default())
    }

    /// Mean; `None` without latencies.
    pub(crate) fn known_mean(&self) -> Option<Span> {
        self.stats.mean().map(Span::from_ps_f64)
    }

    /// A quantile; `None` without latencies.
    pub(crate) fn known_quantile(&self, share: f64) -> Option<Span> {
        self.histogram.quantile(share)
    }

    /// A quantile; zero without latencies.
    pub(crate) fn quantile(&self, share: f64) -> Span {
        self.histogram.quantile(share).unwrap_or_default()
    }
}
