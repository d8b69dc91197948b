//! A histogram of spans, for percentiles.

use crate::{Misuse, Span};
use hdrhistogram::Histogram;

/// A histogram of spans.
#[derive(Debug, Clone)]
pub struct SpanHistogram(Histogram<u64>);

impl SpanHistogram {
    /// A histogram that keeps `digits` significant decimal digits, 1 to 5.
    ///
    /// # Errors
    /// [`Misuse::Digits`]
    pub fn new(digits: u8) -> Result<Self, Misuse> {
        if digits == 0 {
            return Err(Misuse::Digits(digits));
        }
        Histogram::new(digits).map(Self).map_err(|_| Misuse::Digits(digits))
    }

    /// Records a span.
    pub fn record(&mut self, span: Span) {
        // The histogram grows as needed; a span beyond its range counts as its longest.
        if self.0.record(span.as_ps()).is_err() {
            self.0.saturating_record(span.as_ps());
        }
    }

    /// Forgets all spans.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Number of spans recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile for a share of 0 to 1; `None` without spans.
    pub fn quantile(&self, share: f64) -> Option<Span> {
        (!self.0.is_empty()).then(|| Span::from_ps(self.0.value_at_quantile(share)))
    }

    /// The longest span.
    pub fn max(&self) -> Option<Span> {
        (!self.0.is_empty()).then(|| Span::from_ps(self.0.max()))
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
        assert!(spans.max().unwrap().as_ps_f64() / Span::MAX.as_ps_f64() > 0.999);
        assert_eq!(SpanHistogram::new(0).unwrap_err(), Misuse::Digits(0));
        assert_eq!(SpanHistogram::new(6).unwrap_err(), Misuse::Digits(6));
    }
}
