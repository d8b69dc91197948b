//! Confidence intervals of means.

use crate::{Misuse, RunningStats, readable};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::f64::consts::PI;
use std::fmt;

/// Up to so many degrees of freedom `statrs` (0.18) finds Student's quantile. From a million on its result is off, or its search
/// does not end.
const FREEDOM_MAX: u64 = 10_000;

/// The share of intervals that contain the true mean, if what their maker assumes holds. Above 0, below 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Confidence(f64);

impl Confidence {
    /// 90 %.
    pub const PERCENT_90: Self = Self(0.90);
    /// 95 %, the usual choice.
    pub const PERCENT_95: Self = Self(0.95);
    /// 99 %.
    pub const PERCENT_99: Self = Self(0.99);

    /// Another share, above 0 and below 1.
    ///
    /// # Errors
    /// [`Misuse::Confidence`] for any other number.
    pub fn new(share: f64) -> Result<Self, Misuse> {
        if share > 0.0 && share < 1.0 { Ok(Self(share)) } else { Err(Misuse::Confidence(share)) }
    }

    /// The share.
    pub fn share(self) -> f64 {
        self.0
    }

    /// Student's quantile: half of an interval is this many standard errors wide (Student, "The probable error of a mean",
    /// 1908). A mean of n values has n - 1 degrees of freedom. `None` for 0.
    pub fn student_quantile(self, degrees_of_freedom: u64) -> Option<f64> {
        // By the lower tail: the upper one's share rounds to 1 if this one's is small.
        let tail = (1.0 - self.0) / 2.0;
        let freedom = degrees_of_freedom as f64;
        let quantile = match degrees_of_freedom {
            // Cauchy's distribution, of whose far tails `statrs` has no digit right.
            1 => -(PI * tail).tan().recip(),
            0..=FREEDOM_MAX => StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(tail),
            _ => student_from_normal(Normal::standard().inverse_cdf(tail), freedom),
        };
        Some(-quantile)
    }
}

/// Student's quantile from that of the normal distribution, for many degrees of freedom (Abramowitz and Stegun, "Handbook of
/// Mathematical Functions", 26.7.5). From 10,000 on what is left out is below 1e-10 of it for all but extreme shares.
fn student_from_normal(normal: f64, freedom: f64) -> f64 {
    let square = normal * normal;
    let first = (square + 1.0) / (4.0 * freedom);
    let second = ((5.0 * square + 16.0) * square + 3.0) / (96.0 * freedom * freedom);
    normal * (1.0 + first + second)
}

/// A mean with its confidence interval, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfidenceInterval {
    /// The middle of the interval.
    pub mean: f64,
    /// Half of the interval's width.
    pub half_width: f64,
}

impl ConfidenceInterval {
    /// The lower end.
    pub fn low(&self) -> f64 {
        self.mean - self.half_width
    }

    /// The upper end.
    pub fn high(&self) -> f64 {
        self.mean + self.half_width
    }

    /// Whether a number is in the interval.
    pub fn contains(&self, number: f64) -> bool {
        (number - self.mean).abs() <= self.half_width
    }
}

/// `2.331 ± 0.042`; a precision sets the digits of both numbers.
impl fmt::Display for ConfidenceInterval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match formatter.precision() {
            Some(digits) => format!("{:.digits$} ± {:.digits$}", self.mean, self.half_width),
            None => format!("{} ± {}", self.mean, self.half_width),
        };
        readable::pad(&text, formatter)
    }
}

impl RunningStats {
    /// The interval of the mean by Student's distribution; `None` for fewer than two values.
    ///
    /// It assumes that the values are independent and about normal. Means of replications are: runs of one model, each
    /// with a seed of its own and without its warm-up. Values of one run are not independent, since a customer who waits
    /// long is followed by others; their interval would be too narrow by far. [`BatchMeans`](crate::BatchMeans) are for one
    /// run. Source: Law, "Simulation Modeling and Analysis", chapter 9.
    pub fn interval(&self, confidence: Confidence) -> Option<ConfidenceInterval> {
        let half_width =
            confidence.student_quantile(self.count().checked_sub(1)?)? * self.standard_error()?;
        Some(ConfidenceInterval { mean: self.mean()?, half_width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(values: &[f64]) -> RunningStats {
        values.iter().copied().collect()
    }

    /// As in printed tables.
    #[test]
    fn quantiles_are_student_s() {
        let check = |confidence: Confidence, degrees_of_freedom, expected: f64| {
            let quantile = confidence.student_quantile(degrees_of_freedom).unwrap();
            assert!(
                (quantile - expected).abs() < 5e-4,
                "{quantile} for {degrees_of_freedom}, expected {expected}"
            );
        };
        check(Confidence::PERCENT_95, 1, 12.706);
        check(Confidence::PERCENT_95, 4, 2.776);
        check(Confidence::PERCENT_90, 10, 1.812);
        check(Confidence::PERCENT_99, 19, 2.861);
        check(Confidence::PERCENT_95, 1_000_000, 1.960);
        assert_eq!(Confidence::PERCENT_95.student_quantile(0), None);
    }

    /// Where both can be had, they agree; and no number of values takes long.
    #[test]
    fn quantiles_of_many_values_approach_the_normal_one() {
        for share in [0.01, 0.5, 0.9, 0.95, 0.99, 0.999_999] {
            let confidence = Confidence::new(share).unwrap();
            let normal = -Normal::standard().inverse_cdf((1.0 - share) / 2.0);
            let (before, after) = [FREEDOM_MAX, FREEDOM_MAX + 1]
                .map(|freedom| confidence.student_quantile(freedom).unwrap())
                .into();
            assert!(before > after && before - after < 2e-8 * (1.0 + before.powi(3)), "{before}, {after}");
            let mut last = before;
            for freedom in (5..20).map(|digits| 10_u64.pow(digits)).chain([u64::MAX]) {
                let quantile = confidence.student_quantile(freedom).unwrap();
                assert!((normal..last).contains(&quantile) || quantile == normal, "{quantile} for {freedom}");
                last = quantile;
            }
            assert_eq!(last, normal);
        }
    }

    #[test]
    fn the_highest_confidence_has_a_quantile() {
        let highest = Confidence::new(1.0 - f64::EPSILON / 2.0).unwrap();
        let quantiles = [1, 10, FREEDOM_MAX, FREEDOM_MAX + 1, u64::MAX]
            .map(|freedom| highest.student_quantile(freedom).unwrap());
        assert!(quantiles.is_sorted_by(|more, less| more > less), "{quantiles:?}");
        // Of Cauchy's distribution: the cotangent of the tail's share of a half turn.
        assert!((quantiles[0] * PI * f64::EPSILON / 4.0 - 1.0).abs() < 1e-6, "{quantiles:?}");
        assert!((quantiles[4] - 8.292).abs() < 1e-3, "{quantiles:?}");
    }

    #[test]
    fn intervals_need_two_values_and_equal_ones_have_no_width() {
        let interval = stats(&[1.0, 2.0, 3.0, 4.0, 5.0]).interval(Confidence::PERCENT_95).unwrap();
        assert_eq!(format!("[{interval:15.3}]"), "[  3.000 ± 1.963]");
        assert!(interval.contains(1.04) && !interval.contains(1.03) && !interval.contains(f64::NAN));
        assert_eq!((interval.low() + interval.high()) / 2.0, 3.0);
        assert_eq!(stats(&[1.0]).interval(Confidence::PERCENT_95), None);
        let equal = stats(&[2.0, 2.0]).interval(Confidence::PERCENT_99).unwrap();
        assert_eq!(
            (equal, equal.to_string()),
            (ConfidenceInterval { mean: 2.0, half_width: 0.0 }, "2 ± 0".to_owned())
        );
    }

    #[test]
    fn a_confidence_is_between_0_and_1() {
        assert_eq!(Confidence::new(0.98).unwrap().share(), 0.98);
        for share in [0.0, 1.0, 95.0, -0.1] {
            assert_eq!(Confidence::new(share), Err(Misuse::Confidence(share)));
        }
        assert!(Confidence::new(f64::NAN).is_err());
    }
}
