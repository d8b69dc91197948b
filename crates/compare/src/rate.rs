//! An amount per unit over rounds, such as nanoseconds per request, and how much it varies.

use crate::ratio::quantile;

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
    /// The square of its standard error; `None` with fewer than [`ROUNDS_MIN`] rounds.
    pub variance: Option<f64>,
    /// Degrees of freedom of the variance.
    pub freedom: f64,
}

impl Rate {
    /// The rate over these rounds; `None` if they have no units.
    pub fn of(rounds: &[Round]) -> Option<Self> {
        // A round in which nothing happened says nothing about the rate.
        let rounds: Vec<Round> =
            rounds.iter().copied().filter(|round| round.units != 0.0 || round.amount != 0.0).collect();
        let batches: Vec<Round> = rounds.chunks(rounds.len().div_ceil(BATCHES_MAX).max(1)).map(sum).collect();
        let Round { amount, units } = sum(&rounds);
        let value = amount / units;
        let number = batches.len() as f64;
        let squares: f64 = batches.iter().map(|one| (one.amount - value * one.units).powi(2)).sum();
        let variance = number / (number - 1.0) * squares / units.powi(2);
        (units > 0.0 && value.is_finite()).then_some(Self {
            value,
            variance: (rounds.len() >= ROUNDS_MIN && variance.is_finite()).then_some(variance),
            freedom: number - 1.0,
        })
    }

    /// The value's 95 % interval, by Student's t; `None` without a variance. A sum of what can't be negative is not below 0.
    pub fn interval(&self) -> Option<[f64; 2]> {
        let reach = quantile(self.freedom)? * self.variance?.sqrt();
        Some([(self.value - reach).max(0.0), self.value + reach])
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
