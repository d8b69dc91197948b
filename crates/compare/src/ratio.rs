//! The ratio of a rate after a change to the rate before, with its confidence interval.

use crate::rate::Rate;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::cmp::Ordering;

/// The share of intervals that contain the true ratio.
const CONFIDENCE: f64 = 0.95;

/// A ratio with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// After by before.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Ratio {
    /// The ratio of two independent rates, with the interval of Fieller's theorem (Some Problems in Interval Estimation, 1954): all ratios
    /// that a test of `after - ratio * before` does not reject. The variances may differ; the degrees of freedom are Satterthwaite's, at the
    /// ratio itself (Tamhane and Logan, Finding the maximum safe dose level for heteroscedastic data, 2004; R's package mratios). `None`
    /// without variances, or if the rate before could as well be zero.
    pub fn of(after: &Rate, before: &Rate) -> Option<Self> {
        let ratio = after.value / before.value;
        let (of_after, of_before) = (after.variance?, before.variance?);
        let t = quantile(degrees(ratio, (of_after, after.freedom), (of_before, before.freedom)))?;
        // The ends are the roots of `square * r^2 - 2 * product * r + rest`, where `rest` is as `square`, of the rate after. This form of the
        // discriminant has no difference of large numbers, so rates that do not vary have an interval without width.
        let square = before.value.powi(2) - t.powi(2) * of_before;
        let product = after.value * before.value;
        let crossed = after.value.powi(2) * of_before + before.value.powi(2) * of_after;
        let discriminant = t.powi(2) * (crossed - t.powi(2) * of_after * of_before);
        let root = discriminant.max(0.0).sqrt();
        // No amount is negative, so no ratio is.
        let [low, high] = [(product - root) / square, (product + root) / square].map(|end| end.max(0.0));
        let is_known = [ratio, discriminant, low, high].iter().all(|number| number.is_finite());
        (square > 0.0 && is_known).then(|| Self { ratio, low: low.min(ratio), high: high.max(ratio) })
    }

    /// The ratio if this share of all calls was lost, in either document: by so much the interval is wider.
    pub fn with_lost(self, share: f64) -> Self {
        Self { low: self.low / (1.0 + share), high: self.high * (1.0 + share), ..self }
    }

    /// Whether it is more or less than 1; `None` if the interval contains 1.
    pub fn sign(&self) -> Option<Ordering> {
        match self {
            Self { low, .. } if *low > 1.0 => Some(Ordering::Greater),
            Self { high, .. } if *high < 1.0 => Some(Ordering::Less),
            _ => None,
        }
    }
}

/// Satterthwaite's degrees of freedom of `after - ratio * before`; infinite if neither varies. Of each the variance and its own degrees.
fn degrees(ratio: f64, after: (f64, f64), before: (f64, f64)) -> f64 {
    let (of_after, of_before) = (after.0, ratio.powi(2) * before.0);
    let all = (of_after + of_before).powi(2);
    if all == 0.0 { f64::INFINITY } else { all / (of_after.powi(2) / after.1 + of_before.powi(2) / before.1) }
}

/// Student's quantile of a two-sided interval. Batches keep the degrees of freedom far below a million, from which on `statrs`'s search may not
/// end.
pub(crate) fn quantile(freedom: f64) -> Option<f64> {
    if freedom.is_infinite() {
        // Nothing varies, so any quantile gives an interval without width.
        return Some(0.0);
    }
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.inverse_cdf(0.5 + CONFIDENCE / 2.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::rate::Round;
    use proptest::prelude::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    /// The rate of rounds of one unit each: the mean of these amounts.
    fn mean(amounts: &[f64]) -> Rate {
        let rounds: Vec<Round> = amounts.iter().map(|&amount| Round { amount, units: 1.0 }).collect();
        Rate::of(&rounds).unwrap()
    }

    /// R's package mratios, `t.test.ratio(a1, a2)` on `set.seed(12345); a1 <- rnorm(5, 1, 1); a2 <- rnorm(5, 2, 1)`, prints 0.8643849 and the
    /// interval 0.4056763 to 2.6170008 (published by "mikuhatsune", The ratio of means, its test and confidence interval, 2012).
    #[test]
    fn the_interval_is_that_of_another_program() {
        let after = mean(&[1.585_528_8, 1.709_466_0, 0.890_696_7, 0.546_502_8, 1.605_887_5]);
        let before = mean(&[0.182_044_0, 2.630_098_6, 1.723_815_9, 1.715_840_3, 1.080_678_0]);
        let found = Ratio::of(&after, &before).unwrap();
        assert_eq!(format!("{:.7}", found.ratio), "0.8643848", "of data that are rounded to seven decimals");
        assert!(
            (found.low - 0.405_676_3).abs() < 3e-7 && (found.high - 2.617_000_8).abs() < 3e-7,
            "{found:?}"
        );
        assert_eq!(found.sign(), None);
    }

    /// Found with another program and another method: where Welch's test of `after - ratio * before` turns, by the t distribution and the root
    /// finder `brentq` of SciPy 1.17.1, with Satterthwaite's degrees of freedom at the ratio (3.2195 and 5.9996).
    #[test]
    fn the_interval_of_runs_is_that_of_another_program() {
        let after = Rate::of_runs(&[412.7, 398.1, 405.9]).unwrap();
        for (before, expected) in [
            (&[598.3, 611.0, 604.4] as &[f64], [0.670_838_617, 0.646_324_786, 0.695_815_781]),
            (&[598.3, 611.0, 604.4, 587.2, 640.9], [0.666_655_708, 0.637_940_309, 0.697_131_921]),
        ] {
            let Ratio { ratio, low, high } = Ratio::of(&after, &Rate::of_runs(before).unwrap()).unwrap();
            for (found, expected) in [ratio, low, high].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
            }
        }
    }

    /// Of equal runs neither the mean nor the interval is off by rounding.
    #[test]
    fn runs_that_do_not_differ_have_an_interval_without_width() {
        for value in [0.1, 7.0 / 3.0, 1e-9, 123_456.789] {
            let runs = Rate::of_runs(&[value; 3]).unwrap();
            assert_eq!((runs.value, runs.variance), (value, Some(0.0)));
            assert_eq!(Ratio::of(&runs, &runs), Some(Ratio { ratio: 1.0, low: 1.0, high: 1.0 }));
        }
    }

    #[test]
    fn what_is_too_large_has_no_ratio() {
        let huge = Rate { value: 1e200, variance: Some(1e300), freedom: 2.0 };
        let one = Rate { value: 1.0, variance: Some(0.0), freedom: 2.0 };
        assert_eq!(Ratio::of(&huge, &one), None);
        assert_eq!(Ratio::of(&one, &huge), None);
    }

    #[test]
    fn without_variation_the_interval_has_no_width() {
        let found = Ratio::of(&mean(&[2.0; 5]), &mean(&[4.0; 9])).unwrap();
        assert_eq!(found, Ratio { ratio: 0.5, low: 0.5, high: 0.5 });
        assert_eq!(found.sign(), Some(Ordering::Less));
        let same = Ratio::of(&mean(&[4.0; 5]), &mean(&[4.0; 9])).unwrap();
        assert_eq!((same.ratio, same.sign()), (1.0, None));
        assert_eq!(Ratio::of(&mean(&[0.0; 5]), &mean(&[4.0; 9])).unwrap().ratio, 0.0);
    }

    #[test]
    fn what_could_be_zero_divides_nothing() {
        assert_eq!(Ratio::of(&mean(&[1.0; 5]), &mean(&[0.0, 0.0, 0.0, 0.0, 9.0])), None);
        assert_eq!(Ratio::of(&mean(&[1.0; 5]), &mean(&[0.0; 5])), None);
        assert_eq!(Ratio::of(&mean(&[1.0; 4]), &mean(&[1.0; 5])), None, "too few rounds");
    }

    #[test]
    fn lost_calls_make_the_interval_wider() {
        let found = Ratio { ratio: 1.02, low: 1.01, high: 1.03 }.with_lost(0.02);
        assert_eq!(found.sign(), None);
        assert!(found.high > 1.05);
    }

    /// A number that is about normally distributed, with mean 0 and variance 1.
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        let uniform = |random: &mut Pcg64Mcg| random.next_u64() as f64 / u64::MAX as f64;
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    /// Rounds of about 1,000 I/Os each, with this many nanoseconds per I/O on average.
    fn measured(random: &mut Pcg64Mcg, rounds: usize, ns_per_io: f64) -> Vec<Round> {
        let round = |random: &mut Pcg64Mcg| {
            let units = (1000.0 + 300.0 * normal(random)).max(1.0).round();
            let ns = ns_per_io * (1.0 + 0.1 * normal(random));
            Round { amount: units * ns, units }
        };
        (0..rounds).map(|_| round(random)).collect()
    }

    /// Of 4,000 intervals about 95 % contain the true ratio: all but a hundred more or less, by chance.
    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_ratio() {
        for (rounds_before, rounds_after, truth) in [(10, 10, 0.64), (5, 30, 1.0), (120, 60, 3.0)] {
            let mut random = Pcg64Mcg::seed_from_u64(7);
            let mut hits = 0;
            for _ in 0..4000 {
                let before = Rate::of(&measured(&mut random, rounds_before, 500.0)).unwrap();
                let after = Rate::of(&measured(&mut random, rounds_after, 500.0 * truth)).unwrap();
                let found = Ratio::of(&after, &before).unwrap();
                hits += usize::from(found.low <= truth && truth <= found.high);
            }
            let share = hits as f64 / 4000.0;
            assert!((0.93..=0.965).contains(&share), "{rounds_before} and {rounds_after} rounds: {share}");
        }
    }

    /// How many of 2,000 intervals contain the true ratio, if runs differ five times as much as their rounds: intervals from the runs, and
    /// from the rounds of all runs together. Means of 12 rounds differ by 0.3 %, and runs by 5 %.
    fn shares(runs_before: usize, runs_after: usize) -> (f64, f64) {
        const TRUTH: f64 = 0.8;
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut side = |runs: usize, ns: f64| -> Vec<Vec<Round>> {
            let mut run = |_| {
                let of_run = ns * (1.0 + 0.05 * normal(&mut random));
                let mut round = |_| Round { amount: of_run * (1.0 + 0.01 * normal(&mut random)), units: 1.0 };
                (0..12).map(&mut round).collect()
            };
            (0..runs).map(&mut run).collect()
        };
        let of_runs = |rounds: &[Vec<Round>]| {
            let values: Vec<f64> = rounds.iter().map(|rounds| Rate::of(rounds).unwrap().value).collect();
            Rate::of_runs(&values).unwrap()
        };
        let (mut from_runs, mut from_rounds) = (0, 0);
        for _ in 0..2000 {
            let (before, after) = (side(runs_before, 500.0), side(runs_after, 500.0 * TRUTH));
            let contains = |after: &Rate, before: &Rate| {
                let found = Ratio::of(after, before).unwrap();
                usize::from(found.low <= TRUTH && TRUTH <= found.high)
            };
            from_runs += contains(&of_runs(&after), &of_runs(&before));
            from_rounds += contains(&Rate::pooled(&after).unwrap(), &Rate::pooled(&before).unwrap());
        }
        (from_runs as f64 / 2000.0, from_rounds as f64 / 2000.0)
    }

    /// Where runs differ more than their rounds, only intervals from runs contain the true ratio as often as they say.
    #[test]
    fn intervals_from_rounds_are_too_narrow_where_runs_differ() {
        for (before, after) in [(3, 3), (5, 5), (10, 10)] {
            let (from_runs, from_rounds) = shares(before, after);
            assert!((0.93..=0.97).contains(&from_runs), "{before} and {after} runs: {from_runs}");
            assert!(from_rounds < 0.75, "{before} and {after} runs, from their rounds: {from_rounds}");
        }
    }

    /// In how many of 10,000 cases the test of `after - ratio * before` at the true ratio does not reject, by rule of the degrees of freedom:
    /// Satterthwaite's, one less than the smaller side has runs, and those of both sides together. Runs of each side: number and spread.
    fn shares_by_rule(before: (usize, f64), after: (usize, f64)) -> [f64; 3] {
        const TRUTH: f64 = 0.8;
        let mut random = Pcg64Mcg::seed_from_u64(5);
        let mut side = |(runs, spread): (usize, f64), ns: f64| {
            let values: Vec<f64> = (0..runs).map(|_| ns * (1.0 + spread * normal(&mut random))).collect();
            Rate::of_runs(&values).unwrap()
        };
        let smaller = before.0.min(after.0) as f64 - 1.0;
        let of_both = (before.0 + after.0) as f64 - 2.0;
        let fixed = [smaller, of_both].map(|freedom| quantile(freedom).unwrap());
        let mut hits = [0; 3];
        for _ in 0..10_000 {
            let (before, after) = (side(before, 500.0), side(after, 500.0 * TRUTH));
            let (of_after, of_before) = (after.variance.unwrap(), before.variance.unwrap());
            let found = after.value / before.value;
            let freedom = degrees(found, (of_after, after.freedom), (of_before, before.freedom));
            let distance =
                (after.value - TRUTH * before.value).abs() / (of_after + TRUTH.powi(2) * of_before).sqrt();
            let limits = [quantile(freedom).unwrap(), fixed[0], fixed[1]];
            hits.iter_mut().zip(limits).for_each(|(hits, limit)| *hits += usize::from(distance <= limit));
        }
        hits.map(|hits| hits as f64 / 10_000.0)
    }

    /// Why the degrees of freedom are Satterthwaite's.
    #[test]
    fn other_degrees_of_freedom_hold_the_true_ratio_too_often_or_too_seldom() {
        const ALIKE: f64 = 0.05;
        const LITTLE: f64 = 0.01;
        for (before, after) in [
            ((3, ALIKE), (3, ALIKE)),
            ((3, LITTLE), (3, ALIKE)),
            ((3, ALIKE), (10, ALIKE)),
            ((10, ALIKE), (3, ALIKE)),
            ((10, LITTLE), (3, ALIKE)),
        ] {
            let [satterthwaite, smaller, of_both] = shares_by_rule(before, after);
            let shares = format!("{before:?} {after:?}: {satterthwaite} {smaller} {of_both}");
            // Of 200,000 cases, by NumPy and SciPy, 93.5 to 96.5 %; 10,000 differ from that by 0.5 % or more once in twenty times.
            assert!((0.925..=0.97).contains(&satterthwaite), "{shares}");
            assert!(before.1 != after.1 || (0.98..0.997).contains(&smaller), "{shares}");
            assert!(before.0 == after.0 || before.1 == after.1 || of_both < 0.86, "{shares}");
        }
    }

    proptest! {
        /// Fieller's definition: at its ends the test of `after - ratio * before` is just not significant.
        #[test]
        fn the_ends_are_where_the_test_turns(after in proptest::collection::vec(50.0..100.0_f64, 5..20),
            before in proptest::collection::vec(50.0..100.0_f64, 5..20)) {
            let (after, before) = (mean(&after), mean(&before));
            let found = Ratio::of(&after, &before).unwrap();
            let (of_after, of_before) = (after.variance.unwrap(), before.variance.unwrap());
            let freedom = degrees(found.ratio, (of_after, after.freedom), (of_before, before.freedom));
            let t = quantile(freedom).unwrap();
            for end in [found.low, found.high] {
                let error = (of_after + end.powi(2) * of_before).sqrt();
                prop_assert!(((after.value - end * before.value).abs() / error - t).abs() < 1e-6);
            }
            prop_assert!(found.low <= found.ratio && found.ratio <= found.high);
        }

        /// What the rounds of both documents have in common cancels, and a factor of one is a factor of the ratio.
        #[test]
        fn a_factor_of_all_amounts_is_one_of_the_ratio(amounts in proptest::collection::vec(1.0..100.0_f64, 5..70),
            factor in 0.01..100.0_f64) {
            let before = mean(&amounts);
            let same = Ratio::of(&before, &before);
            prop_assert!(same.is_none_or(|same| same.ratio == 1.0 && same.sign().is_none()));
            let scaled: Vec<f64> = amounts.iter().map(|amount| amount * factor).collect();
            if let Some(found) = Ratio::of(&mean(&scaled), &before) {
                prop_assert!((found.ratio / factor - 1.0).abs() < 1e-9);
                prop_assert!(found.low <= factor * (1.0 + 1e-9) && factor <= found.high * (1.0 + 1e-9));
            }
        }
    }
}
