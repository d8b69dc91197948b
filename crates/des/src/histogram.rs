//! A histogram of spans, for percentiles.

use crate::{Misuse, Span};
use hdrhistogram::Histogram;

/// A histogram of spans.
#[derive(Debug, Clone)]
pub struct SpanHistogram {
    spans: Histogram<u64>,
    /// The longest span: the histogram knows only its bucket.
    max: Span,
}

impl SpanHistogram {
    /// A histogram that keeps `digits` significant decimal digits, 1 to 5.
    ///
    /// # Errors
    /// [`Misuse::Digits`]
    pub fn new(digits: u8) -> Result<Self, Misuse> {
        if digits == 0 {
            return Err(Misuse::Digits(digits));
        }
        let spans = Histogram::new(digits).map_err(|_| Misuse::Digits(digits))?;
        Ok(Self { spans, max: Span::ZERO })
    }

    /// Records a span.
    pub fn record(&mut self, span: Span) {
        // The histogram grows as needed; a span beyond its range counts as its longest.
        if self.spans.record(span.as_ps()).is_err() {
            self.spans.saturating_record(span.as_ps());
        }
        self.max = self.max.max(span);
    }

    /// Forgets all spans.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.max = Span::ZERO;
    }

    /// Number of spans recorded.
    pub fn count(&self) -> u64 {
        self.spans.len()
    }

    /// The quantile for a share of 0 to 1, to the histogram's digits; never above the longest span. `None` without spans.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        let quantile = || Span::from_ps(self.spans.value_at_quantile(share)).min(self.max);
        (!self.spans.is_empty()).then(quantile)
    }

    /// The longest span, exact; `None` without spans.
    pub fn max(&self) -> Option<Span> {
        (!self.spans.is_empty()).then_some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_their_digits_from_picoseconds_to_the_end_of_time() {
        let mut spans = SpanHistogram::new(3).unwrap();
        assert_eq!((spans.count(), spans.quantile(0.5), spans.max()), (0, None, None));
        (1..=1000).for_each(|us| spans.record(Span::from_us(us)));
        let near = |share, us| {
            let ps = spans.quantile(share).unwrap().as_ps_f64();
            assert!((ps / Span::from_us(us).as_ps_f64() - 1.0).abs() < 1e-3, "{share}: {ps} ps");
        };
        near(0.5, 500);
        near(0.99, 990);
        spans.record(Span::ZERO);
        spans.record(Span::MAX);
        assert_eq!((spans.count(), spans.quantile(0.0).unwrap()), (1002, Span::ZERO));
        assert_eq!(spans.max(), Some(Span::MAX));
        assert_eq!(SpanHistogram::new(0).unwrap_err(), Misuse::Digits(0));
        assert_eq!(SpanHistogram::new(6).unwrap_err(), Misuse::Digits(6));
    }

    /// A bucket of a histogram with one digit has spans up to a sixteenth longer.
    #[test]
    fn nothing_is_above_the_longest_span() {
        let mut spans = SpanHistogram::new(1).unwrap();
        [1_000_000, 1_000_001].map(Span::from_ps).into_iter().for_each(|span| spans.record(span));
        assert_eq!((spans.max(), spans.quantile(1.0)), (Some(Span::from_ps(1_000_001)), spans.max()));
        spans.clear();
        assert_eq!(spans.max(), None);
        spans.record(Span::from_ns(1));
        assert_eq!((spans.max(), spans.quantile(0.5)), (Some(Span::from_ns(1)), Some(Span::from_ns(1))));
    }
}
