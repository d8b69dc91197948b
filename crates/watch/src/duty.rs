//! When to count, so that watching takes at most a certain share of a core.
//!
//! ```text
//!   |--- counts ---|..... programs are detached .....|--- counts ---|....
//!                  ^ at the latest when this window cost what may be spent in 10 s
//!                                                    ^ as soon as all that was spent is within the share again
//! ```

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A window ends when it cost what may be spent in this time.
const WINDOW_BUDGET: Duration = Duration::from_secs(10);
/// Shorter pauses save less than detaching and attaching takes.
const PAUSE_MIN_S: f64 = 1.0;
/// Pauses last by up to this share longer, by chance, so that windows do not always meet the same part of a load that repeats.
const CHANCE: f64 = 0.2;

/// A share of a core, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Duty {
    /// Seconds of CPU time in a second.
    pub(crate) max_cores: f64,
}

impl Duty {
    /// How long a window may last in which counting takes this share of a core.
    pub(crate) fn window(self, cores: f64) -> Duration {
        let seconds = self.max_cores * WINDOW_BUDGET.as_secs_f64() / cores;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// How long to pause before a further window, which is expected to cost so much; none if it may go on, or nearly.
    /// `chance` is from 0 to 1.
    pub(crate) fn pause(self, elapsed: Duration, spent_ns: f64, window_ns: f64, chance: f64) -> Duration {
        let allowed_s = (spent_ns + window_ns) / 1e9 / self.max_cores;
        let seconds = allowed_s - elapsed.as_secs_f64();
        if seconds.is_nan() || seconds < PAUSE_MIN_S {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(seconds * (1.0 + CHANCE * chance)).unwrap_or(Duration::MAX)
    }
}

/// A number from 0 to 1 that nothing foresees.
pub(crate) fn chance() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PERCENT: Duty = Duty { max_cores: 0.02 };

    #[test]
    fn a_window_ends_when_its_budget_is_spent() {
        assert_eq!(TWO_PERCENT.window(1.0), Duration::from_millis(200));
        assert_eq!(TWO_PERCENT.window(0.02), Duration::from_secs(10));
        assert_eq!(TWO_PERCENT.window(0.0), Duration::MAX);
    }

    #[test]
    fn it_pauses_until_what_was_spent_is_within_the_share() {
        let elapsed = Duration::from_secs(1);
        assert_eq!(TWO_PERCENT.pause(elapsed, 0.2e9, 0.2e9, 0.0), Duration::from_secs(19));
        assert_eq!(TWO_PERCENT.pause(elapsed, 0.2e9, 0.2e9, 1.0), Duration::from_millis(22_800));
        assert_eq!(
            TWO_PERCENT.pause(elapsed, 0.01e9, 0.01e9, 1.0),
            Duration::ZERO,
            "it costs little: no pause"
        );
        assert_eq!(
            TWO_PERCENT.pause(elapsed, 0.0195e9, 0.0195e9, 1.0),
            Duration::ZERO,
            "nor for a short one"
        );
        assert_eq!(TWO_PERCENT.pause(elapsed, f64::NAN, 0.0, 0.0), Duration::ZERO);
    }

    /// Whatever the load costs, and however it changes, the share is kept over the whole time, but for one window.
    #[test]
    fn the_share_is_kept_at_any_rate() {
        for cores in [0.001, 0.019, 0.05, 1.0, 30.0] {
            let (mut elapsed, mut spent_ns, mut windows) = (Duration::ZERO, 0.0, 0);
            while elapsed < Duration::from_secs(10_000) {
                // Every other window costs three times as much.
                let cores = if windows % 2 == 0 { cores } else { 3.0 * cores };
                let length = TWO_PERCENT.window(cores).min(Duration::from_secs(1));
                let window_ns = cores * length.as_secs_f64() * 1e9;
                elapsed += length;
                spent_ns += window_ns;
                windows += 1;
                let share = (spent_ns - window_ns) / 1e9 / elapsed.as_secs_f64();
                assert!(share <= 0.0201, "{cores}: {share}");
                elapsed += TWO_PERCENT.pause(elapsed, spent_ns, window_ns, chance());
            }
            assert!(windows > 100, "{cores}: {windows}");
        }
    }
}
