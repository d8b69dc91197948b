//! How long what is measured took.

use des::{Misuse, RunningStats, Span, SpanHistogram};

/// Spans of which the mean and quantiles are asked.
#[derive(Debug)]
pub(crate) struct Latencies {
    histogram: SpanHistogram,
    stats: RunningStats,
}

impl Latencies {
    /// # Errors
    /// [`Misuse`], never of three digits.
    pub(crate) fn new() -> Result<Self, Misuse> {
        Ok(Self { histogram: SpanHistogram::new(3)?, stats: RunningStats::default() })
    }

    pub(crate) fn record(&mut self, latency: Span) {
        self.histogram.record(latency);
        self.stats.add(latency.as_ps_f64());
    }

    pub(crate) fn per_second(&self, seconds: f64) -> f64 {
        self.stats.count() as f64 / seconds
    }

    /// Nothing where there were none.
    pub(crate) fn mean(&self) -> Span {
        Span::from_ps_f64(self.stats.mean().unwrap_or_default())
    }

    /// What this share of them took at most; nothing where there were none.
    pub(crate) fn quantile(&self, share: f64) -> Span {
        self.histogram.quantile(share).unwrap_or_default()
    }
}
