//! Mean and variance of numbers that come one by one.

/// How many numbers there were, and around what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    /// The squares of their distances from the mean, summed.
    squares: f64,
    min: f64,
    max: f64,
}

impl Moments {
    /// Takes a number. Without the loss of digits that a sum of squares has (Welford, 1962).
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, if there were any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The variance of what they were drawn from, if there were two at least.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// How far the mean of so many independent numbers is off, as a standard deviation.
    pub fn standard_error(&self) -> Option<f64> {
        self.variance().map(|variance| (variance / self.count as f64).sqrt())
    }

    /// The smallest.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_those_of_a_known_sample() {
        let mut moments = Moments::default();
        assert_eq!((moments.mean(), moments.variance(), moments.max()), (None, None, None));
        // Far from zero, where the difference of two sums of squares would have no digit left.
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].iter().for_each(|value| moments.add(value + 1e9));
        assert_eq!((moments.count(), moments.mean()), (8, Some(1e9 + 5.0)));
        let variance = moments.variance().unwrap();
        assert!((variance / (32.0 / 7.0) - 1.0).abs() < 1e-7, "{variance}");
        assert_eq!((moments.min(), moments.max()), (Some(1e9 + 2.0), Some(1e9 + 9.0)));
        assert_eq!(moments.standard_error(), Some((variance / 8.0).sqrt()));
    }
}
