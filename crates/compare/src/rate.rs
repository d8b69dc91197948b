//! An amount per unit over rounds, such as nanoseconds per request, and how much it varies.

use crate::ratio::quantile;
use crate::sample::{RUNS_MIN, mean};

/// Fewer rounds give no confidence interval.
pub const ROUNDS_MIN: usize = 5;
/// More rounds are joined, neighbours first. What one round does to the next, such as a queue that is flushed later, then stays within a batch
/// (batch means: Schmeiser, Batch Size Effects in the Analysis of Simulation Output, 1982, advises 10 to 30).
const BATCHES_MAX: usize = 30;

/// What was counted in a round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Round {
    /// How much of what is counted, such as nanoseconds.
    pub amount: f64,
    /// What it is divided by, such as requests.
    pub units: f64,
}

/// An amount per unit: the sum of the rounds' amounts by the sum of their units, so that a long round counts more than a short one.
///
/// Its variance is that of a ratio estimator (Cochran, Sampling Techniques, 1977, chapter 6): of what each round's amount differs from the
/// amount that the rate gives for its units. Rounds are taken to be independent of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Amount per unit.
    pub value: f64,
    /// The square of its standard error; `None` with fewer than [`ROUNDS_MIN`] rounds or [`RUNS_MIN`] runs.
    pub variance: Option<f64>,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Rate {
    /// The rate over these rounds; `None` if they have no units.
    pub fn of(rounds: &[Round]) -> Option<Self> {
        Self::pooled(&[rounds.to_vec()])
    }

    /// The rate over the rounds of several runs, as if they were of one. Only rounds of the same run are joined, so that the order of the runs
    /// does not matter.
    pub(crate) fn pooled(runs: &[Vec<Round>]) -> Option<Self> {
        // A round in which nothing happened says nothing about the rate.
        let has_happened = |round: &Round| round.units != 0.0 || round.amount != 0.0;
        let runs: Vec<Vec<Round>> =
            runs.iter().map(|rounds| rounds.iter().copied().filter(has_happened).collect()).collect();
        let rounds: usize = runs.iter().map(Vec::len).sum();
        let size = rounds.div_ceil(BATCHES_MAX).max(1);
        let batches: Vec<Round> = runs.iter().flat_map(|rounds| rounds.chunks(size).map(sum)).collect();
        let Round { amount, units } = sum(&batches);
        let value = amount / units;
        let number = batches.len() as f64;
        let squares: f64 = batches.iter().map(|one| (one.amount - value * one.units).powi(2)).sum();
        let variance = number / (number - 1.0) * squares / units.powi(2);
        (units > 0.0 && value.is_finite()).then_some(Self {
            value,
            variance: (rounds >= ROUNDS_MIN && variance.is_finite()).then_some(variance),
            freedom: number - 1.0,
        })
    }

    /// The value's 95 % interval, by Student's t; `None` without a variance. A sum of what can't be negative is not below 0.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let reach = quantile(self.freedom)? * self.variance?.sqrt();
        Some([(self.value - reach).max(0.0), self.value + reach])
    }

    /// The mean of what independent runs measured, one value each, with the mean's variance; `None` without runs.
    pub fn of_runs(values: &[f64]) -> Option<Self> {
        let value = mean(values);
        let freedom = values.len() as f64 - 1.0;
        let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
        let variance = squares / freedom / values.len() as f64;
        value.is_finite().then_some(Self {
            value,
            variance: (values.len() >= RUNS_MIN && variance.is_finite()).then_some(variance),
            freedom,
        })
    }
}

/// All rounds as one.
fn sum(rounds: &[Round]) -> Round {
    rounds.iter().fold(Round::default(), |sum, one| Round {
        amount: sum.amount + one.amount,
        units: sum.units + one.units,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn rounds(pairs: &[(f64, f64)]) -> Vec<Round> {
        pairs.iter().map(|&(amount, units)| Round { amount, units }).collect()
    }

    /// R's package survey: `svyratio(~api.stu, ~enroll, dclus1)` prints 0.8497087 and its standard error 0.008386297 (T. Lumley, A survey
    /// analysis example, vignette). These are the sums of its 15 clusters, drawn from 757, which the standard error there takes into account.
    #[test]
    fn the_standard_error_is_that_of_a_survey() {
        let clusters = rounds(&[
            (6047.0, 6777.0),
            (12618.0, 15038.0),
            (1461.0, 1668.0),
            (5935.0, 6958.0),
            (7573.0, 9025.0),
            (610.0, 683.0),
            (199.0, 274.0),
            (1184.0, 1436.0),
            (6431.0, 7375.0),
            (12292.0, 14968.0),
            (1877.0, 2180.0),
            (4895.0, 6081.0),
            (22452.0, 25814.0),
            (532.0, 680.0),
            (1373.0, 1641.0),
        ]);
        let rate = Rate::of(&clusters).unwrap();
        assert_eq!(format!("{:.7}", rate.value), "0.8497087");
        let of_all = 1.0 - 15.0 / 757.0;
        assert_eq!(format!("{:.9}", (rate.variance.unwrap() * of_all).sqrt()), "0.008386297");
        assert_eq!(rate.freedom, 14.0);
    }

    /// The same survey: R's `confint` with 14 degrees of freedom, of the standard error without the correction for 757 clusters:
    /// 0.8497087 and 2.144787 (Student's table) times 0.008470638.
    #[test]
    fn the_interval_is_student_s() {
        let rate = Rate { value: 0.8497087, variance: Some(0.008470638_f64.powi(2)), freedom: 14.0 };
        let [low, high] = rate.interval().unwrap();
        assert_eq!(
            (format!("{low:.6}"), format!("{high:.6}")),
            ("0.831541".to_owned(), "0.867876".to_owned())
        );
        assert_eq!(Rate { variance: None, ..rate }.interval(), None);
    }

    #[test]
    fn a_short_round_counts_little() {
        let rate = Rate::of(&rounds(&[(100.0, 10.0), (90.0, 1.0)])).unwrap();
        assert_eq!((rate.value, rate.variance), (190.0 / 11.0, None));
    }

    #[test]
    fn a_round_in_which_nothing_happened_is_none() {
        let busy = rounds(&[(2.0, 1.0), (4.0, 2.0), (6.0, 2.0), (2.0, 1.0), (2.0, 1.0)]);
        let idle = [busy.clone(), rounds(&[(0.0, 0.0); 20])].concat();
        assert_eq!(Rate::of(&idle), Rate::of(&busy));
        assert_eq!(Rate::of(&rounds(&[(0.0, 0.0); 20])), None);
        assert_eq!(Rate::of(&[]), None);
    }

    #[test]
    fn many_rounds_become_few_batches() {
        let alternating: Vec<Round> =
            (0..300).map(|round| Round { amount: f64::from(round % 2), units: 1.0 }).collect();
        let rate = Rate::of(&alternating).unwrap();
        assert_eq!((rate.value, rate.variance, rate.freedom), (0.5, Some(0.0), 29.0));
    }

    #[test]
    fn rounds_of_runs_are_joined_within_a_run() {
        let run = |first: f64| -> Vec<Round> {
            (0..25).map(|round| Round { amount: first + f64::from(round), units: 1.0 }).collect()
        };
        let [one, other, third] = [run(1.0), run(50.0), run(7.0)];
        let rate = Rate::pooled(&[one.clone(), other.clone(), third.clone()]).unwrap();
        assert_eq!(rate.freedom, 26.0, "three runs of 25 in batches of three");
        assert_eq!(Rate::pooled(&[third, one.clone(), other]), Some(rate));
        assert_eq!(Rate::pooled(std::slice::from_ref(&one)), Rate::of(&one));
        let few = Rate::pooled(&[rounds(&[(1.0, 1.0); 2]), rounds(&[(1.0, 1.0); 3])]).unwrap();
        assert_eq!((few.variance, few.freedom), (Some(0.0), 4.0), "five in all");
    }

    #[test]
    fn runs_are_one_value_each() {
        let rate = Rate::of_runs(&[4.0, 6.0, 8.0]).unwrap();
        assert_eq!((rate.value, rate.variance, rate.freedom), (6.0, Some(4.0 / 3.0), 2.0));
        assert_eq!(Rate::of_runs(&[4.0, 6.0]).unwrap().variance, None);
        assert_eq!(Rate::of_runs(&[]), None);
        assert_eq!(Rate::of_runs(&[1e308, -1e308, 1e308]), None);
    }

    #[test]
    fn what_is_too_large_has_no_rate() {
        assert_eq!(Rate::of(&rounds(&[(1e308, 1e-300); 9])), None);
        assert_eq!(
            Rate::of(&rounds(&[(1e300, 1e300), (0.0, 1e300), (1.0, 1.0), (1.0, 1.0), (1.0, 2.0)]))
                .unwrap()
                .variance,
            None
        );
    }
}
