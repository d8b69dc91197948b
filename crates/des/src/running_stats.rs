//! Running statistics: mean, variance and extremes of a stream of numbers.

/// Count, mean, variance, minimum and maximum of the numbers added so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningStats {
    count: u64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl RunningStats {
    /// Adds a number. Welford's algorithm (1962) avoids the loss of digits of a sum of squares.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The statistics after adding `zeros` zeros (Chan, Golub and LeVeque, 1979). Equal to adding them one by one, except for rounding.
    pub(crate) fn with_zeros(self, zeros: u64) -> Self {
        if zeros == 0 {
            return self;
        }
        let share = self.count as f64 / (self.count + zeros) as f64;
        Self {
            count: self.count + zeros,
            mean: self.mean * share,
            squares: self.squares + self.mean * self.mean * zeros as f64 * share,
            min: self.min.min(0.0),
            max: self.max.max(0.0),
        }
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The sample variance; `None` for fewer than two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The standard error of the mean, if the values are independent; `None` for fewer than two.
    pub fn standard_error(&self) -> Option<f64> {
        self.variance().map(|variance| (variance / self.count as f64).sqrt())
    }

    /// The minimum; `None` without values.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The maximum; `None` without values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl Default for RunningStats {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Extend<f64> for RunningStats {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.add(value));
    }
}

impl FromIterator<f64> for RunningStats {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut stats = Self::default();
        stats.extend(values);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_a_known_sample_are_right() {
        let mut stats = RunningStats::default();
        assert_eq!((stats.mean(), stats.variance(), stats.max()), (None, None, None));
        // Far from zero, where the difference of two sums of squares would have no digit left.
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].iter().for_each(|value| stats.add(value + 1e9));
        assert_eq!((stats.count(), stats.mean()), (8, Some(1e9 + 5.0)));
        let variance = stats.variance().unwrap();
        assert!((variance / (32.0 / 7.0) - 1.0).abs() < 1e-7, "{variance}");
        assert_eq!((stats.min(), stats.max()), (Some(1e9 + 2.0), Some(1e9 + 9.0)));
        assert_eq!(stats.standard_error(), Some((variance / 8.0).sqrt()));
    }

    #[test]
    fn zeros_are_added_all_at_once() {
        for others in [&[][..], &[3.0], &[3.0, 8.0, 5.5]] {
            for zeros in [0, 1, 7] {
                let (mut all, mut some) = (RunningStats::default(), RunningStats::default());
                (0..zeros).for_each(|_| all.add(0.0));
                others
                    .iter()
                    .for_each(|other| [&mut all, &mut some].into_iter().for_each(|to| to.add(*other)));
                let some = some.with_zeros(zeros);
                let exact = |stats: &RunningStats| (stats.count(), stats.min(), stats.max());
                assert_eq!(exact(&some), exact(&all));
                let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
                    (Some(a), Some(b)) => (a - b).abs() < 1e-12,
                    (a, b) => a == b,
                };
                assert!(near(some.mean(), all.mean()), "{some:?}, {all:?}");
                assert!(near(some.variance(), all.variance()), "{some:?}, {all:?}");
            }
        }
    }
}
