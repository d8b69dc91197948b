//! The ratio of a benchmark's rounds after a change to those before, by medians, which a few disturbed rounds do not move.

use crate::ratio::Ratio;

/// Half of the share of intervals that do not contain the true ratio.
const TAIL: f64 = 0.025;
/// The standard normal distribution's quantile for [`TAIL`].
const NORMAL: f64 = 1.959_963_985;
/// Up to so many rounds of each the distribution is exact: more could not be counted without rounding.
const EXACT_MAX: usize = 20;
/// More rounds are not compared in pairs: of n and m rounds there are n times m.
pub(crate) const ROUNDS_MAX: usize = 300;

/// The median of the ratios of each round after to each round before (Hodges and Lehmann, Estimates of Location Based on Rank Tests, 1963), with
/// the interval of the Mann-Whitney test, which is also benchstat's: the ratios that this test does not reject. It assumes that a change
/// multiplies the times of all rounds, and nothing about how these are distributed. `None` with too few rounds (4 of each are needed), more than
/// [`ROUNDS_MAX`], or if one took no time.
pub(crate) fn median_ratio(after: &[f64], before: &[f64]) -> Option<Ratio> {
    let is_countable = |rounds: &[f64]| {
        rounds.len() <= ROUNDS_MAX && rounds.iter().all(|value| *value > 0.0 && value.is_finite())
    };
    if !is_countable(after) || !is_countable(before) {
        return None;
    }
    let outside = pairs_outside(after.len(), before.len()).checked_sub(1)?;
    let mut ratios: Vec<f64> =
        after.iter().flat_map(|after| before.iter().map(move |before| after / before)).collect();
    ratios.sort_by(f64::total_cmp);
    let last = ratios.len().checked_sub(1)?;
    let middle = (ratios[last / 2] + ratios[last.div_ceil(2)]) / 2.0;
    let (low, high) = (*ratios.get(outside)?, *ratios.get(last.checked_sub(outside)?)?);
    middle.is_finite().then_some(Ratio { ratio: middle, low, high })
}

/// How many of the sorted pairs, counted from either end, is the interval's end: the least `u` of which the test statistic is at most so with a
/// probability above [`TAIL`]. 0 if there are too few pairs for an interval.
fn pairs_outside(after: usize, before: usize) -> usize {
    if after.max(before) > EXACT_MAX {
        let (n, m) = (after as f64, before as f64);
        return (n * m / 2.0 - NORMAL * (n * m * (n + m + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize;
    }
    let ways = orders(after, before);
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let is_over = |ways: &f64| {
        below += ways;
        below / all > TAIL
    };
    ways.iter().position(is_over).unwrap_or(0)
}

/// In how many orders of `n` and `m` rounds the test statistic has each value: the coefficients of Gauss's binomial.
fn orders(n: usize, m: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n * m + 1];
    ways[0] = 1.0;
    for step in 1..=n {
        // Times (1 - x^(m + step)), then divided by (1 - x^step). Whole numbers below 2^53 throughout.
        for place in (m + step..ways.len()).rev() {
            ways[place] -= ways[place - m - step];
        }
        for place in step..ways.len() {
            ways[place] += ways[place - step];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    /// The table of critical values for a two-sided test at 5 % in textbooks (Mann and Whitney, On a Test of Whether one of Two Random Variables is
    /// Stochastically Larger than the Other, 1947, and Auble, 1953): the largest statistic that rejects is one less than what this finds.
    #[test]
    fn the_critical_values_are_those_of_the_tables() {
        for (n, m, critical) in [
            (4, 4, 0),
            (5, 5, 2),
            (5, 10, 8),
            (7, 7, 8),
            (8, 8, 13),
            (9, 9, 17),
            (10, 10, 23),
            (11, 11, 30),
            (10, 20, 55),
            (15, 15, 64),
            (20, 20, 127),
        ] {
            assert_eq!(pairs_outside(n, m), critical + 1, "{n} and {m}");
            assert_eq!(pairs_outside(m, n), critical + 1, "{m} and {n}");
        }
        assert_eq!(pairs_outside(3, 3), 0, "no three and three rounds reject anything");
        // The approximation goes on where the exact distribution ends.
        assert!((pairs_outside(21, 20)).abs_diff(134) <= 1);
    }

    #[test]
    fn a_factor_is_found_and_a_disturbed_round_does_not_move_it() {
        let before = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1, 99.9];
        let mut after = before.map(|ns| ns * 0.5);
        let found = median_ratio(&after, &before).unwrap();
        assert!((found.ratio - 0.5).abs() < 0.001 && found.low > 0.49 && found.high < 0.51, "{found:?}");
        after[0] = 1e6;
        assert!((median_ratio(&after, &before).unwrap().ratio - 0.5).abs() < 0.002);
        let same = median_ratio(&before, &before).unwrap();
        assert_eq!((same.ratio, same.sign()), (1.0, None));
    }

    #[test]
    fn without_rounds_there_is_no_interval() {
        assert_eq!(median_ratio(&[], &[1.0; 9]), None);
        assert_eq!(median_ratio(&[1.0; 3], &[1.0; 3]), None);
        assert_eq!(median_ratio(&[0.0; 9], &[1.0; 9]), None);
        assert_eq!(median_ratio(&[1.0; ROUNDS_MAX + 1], &[1.0; 9]), None);
    }

    /// Times with a long tail, as those of a busy host.
    #[test]
    fn nineteen_of_twenty_intervals_contain_the_true_ratio() {
        let mut random = Pcg64Mcg::seed_from_u64(11);
        for (rounds_before, rounds_after) in [(5, 11), (11, 11), (30, 25)] {
            let mut hits = 0;
            let mut rounds = |number: usize, ns: f64| -> Vec<f64> {
                let uniform = |random: &mut Pcg64Mcg| (random.next_u64() as f64 + 1.0) / u64::MAX as f64;
                (0..number).map(|_| ns * (1.0 - 0.2 * uniform(&mut random).ln())).collect()
            };
            for _ in 0..2000 {
                let found = median_ratio(&rounds(rounds_after, 80.0), &rounds(rounds_before, 100.0)).unwrap();
                hits += usize::from(found.low <= 0.8 && 0.8 <= found.high);
            }
            let share = f64::from(hits as u32) / 2000.0;
            assert!((0.94..0.985).contains(&share), "{rounds_before} and {rounds_after} rounds: {share}");
        }
    }

    proptest! {
        #[test]
        fn turned_round_it_is_the_inverse(after in proptest::collection::vec(1.0..100.0_f64, 4..25),
            before in proptest::collection::vec(1.0..100.0_f64, 4..25)) {
            let (found, turned) = (median_ratio(&after, &before).unwrap(), median_ratio(&before, &after).unwrap());
            prop_assert!(found.low <= found.ratio && found.ratio <= found.high);
            prop_assert!((found.low * turned.high - 1.0).abs() < 1e-9 && (found.high * turned.low - 1.0).abs() < 1e-9);
        }
    }
}
