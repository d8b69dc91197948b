//! Compares the two halves of a window.

use super::sample::Sample;
use super::unsteady::Drift;
use super::{NOISE_MAX, NOISE_REFUSED, PASSES, TOLERANCE};
use des::{Confidence, RunningStats};

/// Of steady windows, one in a hundred is taken for a drifting one, and then merely extended.
const CONFIDENCE: Confidence = Confidence::PERCENT_99;

/// The halves of a series of batches.
#[derive(Debug, Clone, Copy)]
struct Halves {
    /// Mean of all batches.
    mean: f64,
    /// Mean of the second half less that of the first.
    difference: f64,
    /// How large that difference may be by chance.
    noise: f64,
}

impl Halves {
    fn of(batches: &[f64]) -> Self {
        let (first, second) = batches.split_at(batches.len() / 2);
        let [first, second] = [first, second].map(|half| half.iter().copied().collect::<RunningStats>());
        let [early, late] = [first, second].map(|half| half.mean().unwrap_or_default());
        let [early_error, late_error] = [first, second].map(|half| half.standard_error().unwrap_or(f64::NAN));
        let degrees_of_freedom = (batches.len() as u64).saturating_sub(2);
        let quantile = CONFIDENCE.student_quantile(degrees_of_freedom).unwrap_or(f64::NAN);
        let noise = quantile * early_error.hypot(late_error);
        Self { mean: (early + late) / 2.0, difference: late - early, noise }
    }
}

/// All that drifts in a window, given the samples at the ends of its batches and at its beginning. `unit` is that of
/// the work done; operations that take no time are steady.
pub(super) fn drifts(samples: &[Sample], unit: &'static str, counts_time: bool) -> Vec<Drift> {
    let rate =
        rate_drift(samples, unit).filter(|drift| !(counts_time && matches!(drift, Drift::Nothing { .. })));
    let levels = samples.first().map_or(0, |sample| sample.levels.len());
    let levels = (0..levels).flat_map(|level| [level_drift(samples, level), too_short(samples, level)]);
    rate.into_iter().chain(levels.flatten()).collect()
}

fn rate_drift(samples: &[Sample], unit: &'static str) -> Option<Drift> {
    let batches: Vec<f64> = samples.windows(2).map(|two| two[1].done - two[0].done).collect();
    let Halves { mean, difference, noise } = Halves::of(&batches);
    if mean <= 0.0 {
        return Some(Drift::Nothing { unit });
    }
    let [difference_share, noise_share] = [difference, noise].map(|value| value / mean);
    // Halves with a few operations each may agree by chance.
    if difference_share.abs() <= TOLERANCE && noise_share <= NOISE_REFUSED {
        return None;
    }
    if difference_share.abs() > noise_share {
        return Some(Drift::Rate { unit, difference_share });
    }
    (noise_share > NOISE_MAX).then_some(Drift::Noise { unit, noise_share })
}

/// What came in and did not go out is inside: by this much the rates of both differ.
fn level_drift(samples: &[Sample], level: usize) -> Option<Drift> {
    let (first, last) = (samples.first()?.levels[level], samples.last()?.levels[level]);
    let entered = (last.entered - first.entered) as f64;
    let growth = last.inside as f64 - first.inside as f64;
    let inside: Vec<f64> = samples.iter().skip(1).map(|sample| sample.levels[level].inside as f64).collect();
    let Halves { difference, noise, .. } = Halves::of(&inside);
    let is_trend = difference.abs() > noise;
    (growth.abs() > TOLERANCE * entered).then_some(Drift::Level {
        name: first.name,
        growth,
        entered,
        is_trend,
    })
}

/// Whether the work inside took too long to pass often in the window.
fn too_short(samples: &[Sample], level: usize) -> Option<Drift> {
    let (first, last) = (samples.first()?.levels[level], samples.last()?.levels[level]);
    let (inside, entered) = (last.inside as f64, (last.entered - first.entered) as f64);
    (last.is_work && entered < PASSES * inside).then_some(Drift::Short { name: last.name, inside, entered })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steady::{BATCHES, Level};
    use des::Stream;

    /// Samples of a machine that does `rate(batch)` and holds `inside(batch)` things, of which 1,000 come in a batch.
    fn samples(rate: impl Fn(usize) -> f64, inside: impl Fn(usize) -> u64) -> Vec<Sample> {
        let mut done = 0.0;
        let sample = |batch: usize| {
            done += if batch == 0 { 0.0 } else { rate(batch) };
            let level =
                Level { name: "things", inside: inside(batch), entered: 1_000 * batch as u64, is_work: true };
            Sample { done, levels: vec![level] }
        };
        (0..=BATCHES).map(sample).collect()
    }

    fn told(samples: &[Sample]) -> Vec<String> {
        drifts(samples, "operations", false).iter().map(Drift::to_string).collect()
    }

    #[test]
    fn equal_halves_are_steady() {
        assert_eq!(told(&samples(|_| 50.0, |_| 7)), [""; 0]);
        assert_eq!(told(&samples(|batch| if batch > 10 { 50.4 } else { 50.0 }, |_| 7)), [""; 0]);
    }

    #[test]
    fn a_level_that_swings_is_noise_and_one_that_grows_is_not() {
        let is_small_noise = |inside: fn(usize) -> u64| {
            drifts(&samples(|_| 50.0, inside), "operations", false).iter().all(Drift::is_small_noise)
        };
        // 300 of the 20,000 that came.
        assert!(is_small_noise(|batch| 1_000 + 300 * (batch as u64 % 2 + batch as u64 / 20)));
        assert!(!is_small_noise(|batch| 1_000 + 15 * batch as u64));
        assert!(!is_small_noise(|batch| 1_000 + 1_300 * (batch as u64 / 20)));
    }

    #[test]
    fn a_rate_that_rises_is_a_drift() {
        let rises = told(&samples(|batch| 100.0 + batch as f64, |_| 7));
        assert_eq!(
            rises,
            [
                "operations: 9.5 % more in the second half of the window than in the first; expected 1 % at most"
            ]
        );
        let falls = told(&samples(|batch| 100.0 - batch as f64, |_| 7));
        assert!(falls[0].contains("% less in the second half"), "{falls:?}");
        assert_eq!(told(&samples(|_| 0.0, |_| 0)), ["no operations in the window"]);
    }

    #[test]
    fn a_window_is_longer_than_work_takes() {
        assert!(told(&samples(|_| 50.0, |_| 2_000)).is_empty());
        let short = "things: 20000 came in the window, and 2001 are inside; expected 10 times as many";
        assert_eq!(told(&samples(|_| 50.0, |_| 2_001)), [short]);
    }

    #[test]
    fn one_operation_in_each_half_is_too_little() {
        let one = |batch| f64::from(u8::from(batch % 10 == 5));
        assert!(
            told(&samples(one, |_| 7))[0].contains("too few to compare"),
            "{:?}",
            told(&samples(one, |_| 7))
        );
    }

    #[test]
    fn noise_hides_no_drift_unless_it_is_small() {
        let noisy = |spread: f64| {
            let mut stream = Stream::new(1, 0);
            let all: Vec<f64> = (0..=BATCHES).map(|_| 100.0 + spread * (stream.uniform() - 0.5)).collect();
            told(&samples(|batch| all[batch], |_| 7))
        };
        assert_eq!(noisy(10.0), [""; 0]);
        assert!(noisy(150.0)[0].starts_with("operations: too few"), "{:?}", noisy(150.0));
    }

    /// The rate does not show it: of what is mapped, a twentieth is never unmapped.
    #[test]
    fn what_piles_up_is_a_drift_though_the_rate_is_steady() {
        let piled = told(&samples(|_| 50.0, |batch| 50 * batch as u64));
        assert_eq!(
            piled,
            [
                "things: 1000 more at the end of the window than at its beginning, 5.0 % of the 20000 that came; expected 1 % at most"
            ]
        );
        assert_eq!(told(&samples(|_| 50.0, |batch| 9 * batch as u64)), [""; 0]);
        let emptied = told(&samples(|_| 50.0, |batch| 5_000 - 50 * batch as u64));
        assert!(emptied[0].starts_with("things: 1000 fewer at the end"), "{emptied:?}");
    }

    #[test]
    fn a_level_that_fluctuates_little_of_what_comes_in_is_steady() {
        let mut stream = Stream::new(2, 0);
        let all: Vec<u64> = (0..=BATCHES).map(|_| stream.below(200)).collect();
        assert_eq!(told(&samples(|_| 50.0, |batch| all[batch])), [""; 0]);
    }
}
