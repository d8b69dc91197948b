//! When to count, so that watching takes at most a certain share of a core.
//!
//! ```text
//!   |======== period ========|================= period =================|...
//!   |   |counts|.. detached ..........................|counts|..........|
//! ```
//!
//! Time is divided into periods, each of which has one window at a place of chance, which stands for its whole period when sums of calls are made.
//! So how long a period is may follow from what windows cost, but no part of the load is met more often than others, nor counts more.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A window ends when it cost what may be spent in this time. No more is saved up, either.
const WINDOW_BUDGET: Duration = Duration::from_secs(10);
/// The longest window.
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// Shorter pauses save less than detaching and attaching takes.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);

/// A share of a core, and what follows from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Duty {
    /// Seconds of CPU time in a second.
    pub(crate) max_cores: f64,
}

/// A period with a window, by the time since watching began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Period {
    /// When the window begins.
    pub(crate) window: Duration,
    /// Its end, unless the window ends later.
    pub(crate) end: Duration,
}

impl Period {
    /// One whose window is all of it.
    pub(crate) fn without_pause(begin: Duration) -> Self {
        Self { window: begin, end: begin }
    }
}

impl Duty {
    /// How long a window may last in which counting takes this share of a core.
    pub(crate) fn window(self, cores: f64) -> Duration {
        let seconds = self.max_cores * WINDOW_BUDGET.as_secs_f64() / cores;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).min(WINDOW_MAX)
    }

    /// The period that begins at this time or later, after all that was spent before; its window is expected to cost so much. `None` if counting
    /// may go on without a pause. `chance` is from 0 to 1.
    pub(crate) fn period(
        self,
        begin: Duration,
        spent_ns: f64,
        window_ns: f64,
        chance: f64,
    ) -> Option<Period> {
        let saved_up_max_ns = self.max_cores * WINDOW_BUDGET.as_nanos() as f64;
        let spent_ns = spent_ns.max(self.max_cores * begin.as_nanos() as f64 - saved_up_max_ns);
        let end = Duration::try_from_secs_f64((spent_ns + window_ns) / 1e9 / self.max_cores).ok()?;
        let spare = end.checked_sub(begin).filter(|length| *length >= PAUSE_MIN)?.saturating_sub(WINDOW_MAX);
        Some(Period { window: begin + spare.mul_f64(chance), end })
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
        assert_eq!(TWO_PERCENT.window(0.02), WINDOW_MAX);
        assert_eq!(TWO_PERCENT.window(0.0), WINDOW_MAX);
    }

    #[test]
    fn a_period_lasts_until_what_was_spent_is_within_the_share() {
        let period = |begin_s: f64, spent_s: f64, window_s: f64, chance| {
            let found =
                TWO_PERCENT.period(Duration::from_secs_f64(begin_s), spent_s * 1e9, window_s * 1e9, chance);
            found.map(|period| [period.window, period.end].map(|time| time.as_secs_f64()))
        };
        assert_eq!(period(1.0, 0.2, 0.2, 0.0), Some([1.0, 20.0]));
        assert_eq!(period(1.0, 0.2, 0.2, 1.0), Some([19.0, 20.0]));
        assert_eq!(period(1.0, 0.01, 0.01, 0.5), None, "it costs little");
        assert_eq!(period(1.0, 0.0195, 0.0195, 0.5), None, "a short pause saves nothing");
        assert_eq!(
            period(3600.0, 1.0, 0.3, 0.0),
            Some([3600.0, 3605.0]),
            "what was not spent is not saved up"
        );
        assert_eq!(TWO_PERCENT.period(Duration::ZERO, f64::NAN, 0.0, 0.0), None);
    }

    /// A load that is busy and quiet by turns, as (cores that counting takes, requests a second).
    fn load(at: Duration, half: Duration, busy: (f64, f64)) -> (f64, f64) {
        if at.as_nanos() / half.as_nanos() % 2 == 0 { busy } else { (busy.0 / 50.0, busy.1 / 50.0) }
    }

    /// Whatever the load costs, and however it changes: the share is kept, and the windows, each for its period, show the true rate.
    #[test]
    fn the_share_is_kept_and_the_rate_is_true() {
        for (half_s, busy) in
            [(30, (1.0, 3e5)), (5, (1.0, 3e5)), (10, (0.05, 1e4)), (30, (8.0, 2e6)), (7, (0.001, 1e3))]
        {
            let half = Duration::from_secs(half_s);
            let (mut spent_ns, mut window_ns_max, mut windows) = (0.0, 0.0_f64, 0);
            let (mut requests, mut begin) = (0.0, Duration::ZERO);
            let mut period = Period::without_pause(begin);
            while begin < Duration::from_secs(50_000) {
                let (cores, rate) = load(period.window, half, busy);
                let length = TWO_PERCENT.window(cores);
                let window_ns = cores * length.as_secs_f64() * 1e9;
                spent_ns += window_ns;
                window_ns_max = window_ns_max.max(window_ns);
                windows += 1;
                let end = period.end.max(period.window + length);
                requests += rate * (end - begin).as_secs_f64();
                let next = TWO_PERCENT.period(end, spent_ns, window_ns_max, chance());
                period = next.unwrap_or(Period::without_pause(end));
                begin = end;
            }
            let seconds = begin.as_secs_f64();
            let share = (spent_ns - window_ns_max) / 1e9 / seconds;
            assert!(share <= 0.0201, "{half_s} {busy:?}: {share}");
            let told = requests / seconds;
            let truth = busy.1 * 1.02 / 2.0;
            assert!((told / truth - 1.0).abs() < 0.12, "{half_s} {busy:?}: {told} {truth} {windows}");
        }
    }
}
