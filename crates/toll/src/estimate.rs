//! Means over boots with their confidence intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::cmp::Ordering;

/// The share of intervals that contain the true mean.
const CONFIDENCE: f64 = 0.95;

/// A mean over boots of a machine or runs of a model, or the difference of two, with its 95 % confidence interval by Student's
/// distribution. Boots of one machine, like runs with other seeds, differ in what shouldn't matter, so their spread is that of
/// chance. Windows of one boot are not independent of each other, so each boot counts once, however many windows it has. Boots
/// of equal number are the same on all machines, so differences are taken boot by boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The interval's lower end; none with a single boot.
    pub low: Option<f64>,
    /// The interval's upper end; none with a single boot.
    pub high: Option<f64>,
}

/// Mean of some samples and variance of that mean, with the samples' degrees of freedom.
struct SampleMean {
    mean: f64,
    variance_of_mean: f64,
    freedom: f64,
}

impl SampleMean {
    /// `None` without samples.
    fn of(samples: &[f64]) -> Option<Self> {
        let number = samples.len() as f64;
        let freedom = number - 1.0;
        let mean = samples.iter().sum::<f64>() / number;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let variance_of_mean = if freedom > 0.0 { squares / freedom / number } else { f64::NAN };
        (!samples.is_empty()).then_some(Self { mean, variance_of_mean, freedom })
    }
}

impl Estimate {
    /// The mean of some boots, one sample each. `None` without samples.
    pub fn of(boots: &[f64]) -> Option<Self> {
        let SampleMean { mean, variance_of_mean, freedom } = SampleMean::of(boots)?;
        Some(Self::new(mean, variance_of_mean, freedom))
    }

    /// How much more the mean of some boots is than that of others. As many boots are the same boots: then it is the mean of their
    /// differences. Else the boots are independent, and their variance may be another (Welch, 1947). `None` without samples of either.
    pub fn difference(boots: &[f64], others: &[f64]) -> Option<Self> {
        if boots.len() == others.len() {
            let differences: Vec<f64> = boots.iter().zip(others).map(|(boot, other)| boot - other).collect();
            return Self::of(&differences);
        }
        let (more, less) = (SampleMean::of(boots)?, SampleMean::of(others)?);
        let variance = more.variance_of_mean + less.variance_of_mean;
        let share = |of: &SampleMean| of.variance_of_mean.powi(2) / of.freedom;
        let freedom = variance.powi(2) / (share(&more) + share(&less));
        Some(Self::new(more.mean - less.mean, variance, freedom))
    }

    fn new(mean: f64, variance_of_mean: f64, freedom: f64) -> Self {
        let half = half_width(variance_of_mean, freedom);
        Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) }
    }

    /// Half of the interval's width; `None` with a single boot.
    pub fn half_width(&self) -> Option<f64> {
        Some((self.high? - self.low?) / 2.0)
    }

    /// Whether it is more or less than zero; `None` if the interval contains both, or if there is none.
    pub fn sign(&self) -> Option<Ordering> {
        match (self.low?, self.high?) {
            (low, _) if low > 0.0 => Some(Ordering::Greater),
            (_, high) if high < 0.0 => Some(Ordering::Less),
            (low, high) if low == 0.0 && high == 0.0 => Some(Ordering::Equal),
            _ => None,
        }
    }

    /// Whether it may be zero by chance: it has an interval, which leaves the sign open. False with a single boot.
    pub fn may_be_chance(&self) -> bool {
        self.low.is_some() && self.sign().is_none()
    }
}

/// Half of the width of an interval; `None` if the variance is unknown.
fn half_width(variance_of_mean: f64, freedom: f64) -> Option<f64> {
    if variance_of_mean == 0.0 {
        return Some(0.0);
    }
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * variance_of_mean.sqrt();
    half.is_finite().then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounded(estimate: Estimate) -> (f64, f64, f64) {
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        (round(estimate.mean), round(estimate.low.unwrap()), round(estimate.high.unwrap()))
    }

    /// Student's own table: the quantile for 4 degrees of freedom is 2.776.
    #[test]
    fn the_interval_of_a_mean_is_student_s() {
        let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
        let half = 2.776_445 * (2.5_f64 / 5.0).sqrt();
        let expected =
            (3.0, ((3.0 - half) * 1000.0).round() / 1000.0, ((3.0 + half) * 1000.0).round() / 1000.0);
        assert_eq!(rounded(Estimate::of(&samples).unwrap()), expected);
    }

    /// By Welch's formula; the quantile by integrating the density with Simpson's rule.
    #[test]
    fn the_interval_of_a_difference_of_other_boots_is_welch_s() {
        let (a, b) = ([27.5, 21.0, 19.0, 23.6, 17.0], [27.1, 22.0, 20.8, 23.4]);
        let difference = Estimate::difference(&a, &b).unwrap();
        assert_eq!(rounded(difference), (-1.705, -7.13, 3.72));
        assert_eq!(difference.sign(), None);
    }

    /// What boots have in common is in no difference of them.
    #[test]
    fn the_same_boots_are_compared_one_by_one() {
        let difference = Estimate::difference(&[110.0, 210.0, 310.0], &[100.0, 200.0, 300.0]).unwrap();
        assert_eq!(difference, Estimate { mean: 10.0, low: Some(10.0), high: Some(10.0) });
        let difference = Estimate::difference(&[111.0, 210.0, 309.0], &[100.0, 200.0, 300.0]).unwrap();
        // Of 11, 10 and 9 the standard error is 1 over the root of 3, and the quantile for 2 degrees of freedom 4.303.
        assert_eq!(rounded(difference), (10.0, 7.516, 12.484));
    }

    #[test]
    fn equal_boots_have_no_width_and_a_single_one_no_interval() {
        let same = Estimate::difference(&[5.0, 5.0], &[3.0, 3.0, 3.0]).unwrap();
        assert_eq!(same, Estimate { mean: 2.0, low: Some(2.0), high: Some(2.0) });
        assert_eq!(same.sign(), Some(Ordering::Greater));
        let single = Estimate::difference(&[5.0], &[3.0, 4.0]).unwrap();
        assert_eq!((single, single.sign()), (Estimate { mean: 1.5, low: None, high: None }, None));
        assert!(!single.may_be_chance() && !same.may_be_chance());
        assert!(Estimate::of(&[-1.0, 2.0]).unwrap().may_be_chance());
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::difference(&[1.0, 1.0], &[1.0, 1.0]).unwrap().sign(), Some(Ordering::Equal));
    }

    proptest! {
        #[test]
        fn an_interval_contains_its_mean(a in proptest::collection::vec(0.0..1e6_f64, 2..9),
            b in proptest::collection::vec(0.0..1e6_f64, 2..9)) {
            let difference = Estimate::difference(&a, &b).unwrap();
            let (low, high) = (difference.low.unwrap(), difference.high.unwrap());
            prop_assert!(low <= difference.mean && difference.mean <= high);
            let reverse = Estimate::difference(&b, &a).unwrap();
            prop_assert!((reverse.mean + difference.mean).abs() < 1e-6 && (reverse.low.unwrap() + high).abs() < 1e-3);
        }
    }
}
