//! Batch means: the mean of one long run, with its interval.

use crate::{Confidence, ConfidenceInterval, RunningStats};

/// Once there are this many batches, pairs are merged.
const BATCHES_MAX: usize = 64;

/// The mean of one long run with its confidence interval, by the method of batch means.
///
/// ```text
///   values:  | warm-up, deleted |  batch  |  batch  |  batch  |  ...  | begun |
///                                 mean      mean      mean              counts once it is full
/// ```
///
/// Successive values of a run depend on each other: waits of customers, or levels at successive times. Means of long
/// batches hardly do, so they are taken as independent values. What is assumed:
///
/// - After the warm-up the model is in its steady state. The caller says how long the warm-up is; plot a run, or compare
///   runs of several warm-ups.
/// - Batches are so long that their means are independent and about normal. [`correlation`](Self::correlation) tells
///   whether neighbours still depend on each other; then run longer.
/// - Each value weighs the same. For a level over time, add its mean over slices of equal length.
///
/// The length of the run need not be known: a batch begins with one value, and its length doubles whenever there are 64
/// batches. So from 64 values on there are 32 to 63 full batches, and memory is constant (dynamic batch means: Yeh and
/// Schmeiser, 2000). More batches would only be shorter (Schmeiser, "Batch size effects in the analysis of simulation
/// output", 1982).
///
/// ```
/// use des::{BatchMeans, Confidence, Span, Stream};
///
/// let (mut waits, mut stream) = (BatchMeans::after(1_000), Stream::new(1, 0));
/// (0..101_000).for_each(|_| waits.add(stream.exponential(Span::from_ns(5)).as_ns_f64()));
/// let interval = waits.interval(Confidence::PERCENT_95).expect("there are batches");
/// assert!(interval.contains(5.0) && interval.half_width < 0.05);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMeans {
    /// Values still to be deleted.
    warm_up: u64,
    /// Values in a full batch, a power of two.
    batch: u64,
    /// Means of full batches.
    means: Vec<f64>,
    /// The batch begun.
    begun: RunningStats,
}

impl BatchMeans {
    /// No batches yet; the first `warm_up` values will be deleted.
    pub fn after(warm_up: u64) -> Self {
        Self { warm_up, batch: 1, means: Vec::with_capacity(BATCHES_MAX), begun: RunningStats::default() }
    }

    /// Adds the run's next value.
    pub fn add(&mut self, value: f64) {
        if self.warm_up > 0 {
            self.warm_up -= 1;
            return;
        }
        self.begun.add(value);
        if self.begun.count() == self.batch {
            self.means.extend(std::mem::take(&mut self.begun).mean());
            self.merge_if_full();
        }
    }

    fn merge_if_full(&mut self) {
        if self.means.len() == BATCHES_MAX {
            self.means = self.means.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
            self.batch *= 2;
        }
    }

    /// Number of full batches.
    pub fn batches(&self) -> usize {
        self.means.len()
    }

    /// Number of values in a full batch.
    pub fn batch_len(&self) -> u64 {
        self.batch
    }

    /// The statistics of the full batches' means.
    fn stats(&self) -> RunningStats {
        self.means.iter().copied().collect()
    }

    /// The mean of the full batches; `None` without one.
    pub fn mean(&self) -> Option<f64> {
        self.stats().mean()
    }

    /// The mean of the full batches, with its interval by Student's distribution; `None` for fewer than two batches.
    pub fn interval(&self, confidence: Confidence) -> Option<ConfidenceInterval> {
        self.stats().interval(confidence)
    }

    /// The correlation between the means of neighbouring batches, -1 to 1. It is about 0 if batches are long enough. By
    /// chance it is beyond ±2 divided by the root of their number for 1 run in 20. `None` without different means, or if a
    /// mean is not finite.
    pub fn correlation(&self) -> Option<f64> {
        let mean = self.mean()?;
        // In units of the largest distance from the mean: squares of distances beyond 1e154 are no numbers.
        let unit = self.means.iter().map(|one| (one - mean).abs()).fold(0.0, f64::max);
        if unit == 0.0 || !unit.is_finite() {
            return None;
        }
        let distances: Vec<f64> = self.means.iter().map(|one| (one - mean) / unit).collect();
        let squares: f64 = distances.iter().map(|distance| distance * distance).sum();
        let products: f64 = distances.windows(2).map(|two| two[0] * two[1]).sum();
        Some(products / squares).filter(|correlation| correlation.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    fn added(warm_up: u64, values: impl Iterator<Item = f64>) -> BatchMeans {
        let mut means = BatchMeans::after(warm_up);
        values.for_each(|value| means.add(value));
        means
    }

    #[test]
    fn batches_double_and_no_value_is_lost() {
        let numbers = |count: u32| (0..count).map(f64::from);
        let shape = |means: &BatchMeans| (means.batches(), means.batch_len());
        assert_eq!(shape(&added(0, numbers(63))), (63, 1));
        assert_eq!(shape(&added(0, numbers(64))), (32, 2));
        assert_eq!(shape(&added(0, numbers(127))), (63, 2));
        assert_eq!(shape(&added(0, numbers(128))), (32, 4));
        let many = added(0, numbers(1 << 16));
        assert_eq!(shape(&many), (32, 1 << 11));
        assert_eq!(many.interval(Confidence::PERCENT_95).unwrap().mean, f64::from((1 << 16) - 1) / 2.0);
    }

    #[test]
    fn a_warm_up_is_deleted() {
        let values = || [1e9; 5].into_iter().chain([2.0; 100]);
        let interval = added(5, values()).interval(Confidence::PERCENT_95).unwrap();
        assert_eq!(interval, ConfidenceInterval { mean: 2.0, half_width: 0.0 });
        assert_eq!(added(200, values()).interval(Confidence::PERCENT_95), None);
        assert_eq!(added(104, values()).interval(Confidence::PERCENT_95), None);
        assert_eq!(added(5, values()).correlation(), None);
    }

    #[test]
    fn large_and_small_values_have_a_correlation() {
        let correlation =
            |unit: f64| added(0, [1.0, 2.0, 4.0, 7.0].map(|value| value * unit).into_iter()).correlation();
        let expected = correlation(1.0).unwrap();
        for unit in [1e200, 1e-200, -1e150] {
            assert!((correlation(unit).unwrap() - expected).abs() < 1e-12, "{unit}");
        }
        for unit in [0.0, f64::INFINITY, f64::NAN, f64::MAX] {
            assert_eq!(correlation(unit), None, "{unit}");
        }
    }

    /// An autoregressive series forgets slowly: of neighbours, 0.98 is in common.
    #[test]
    fn batches_too_short_are_told_by_their_correlation() {
        let series = |count: usize| {
            let mut stream = Stream::new(5, 0);
            let mut value = 0.0;
            added(
                0,
                (0..count).map(move |_| {
                    value = 0.98 * value + stream.uniform() - 0.5;
                    value
                }),
            )
        };
        let (short, long) = (series(512).correlation().unwrap(), series(1 << 17).correlation().unwrap());
        assert!(short > 0.5, "{short}");
        assert!(long.abs() < 0.35, "{long}");
    }
}
