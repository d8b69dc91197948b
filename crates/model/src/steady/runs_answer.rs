//! How the figures of an answer were measured, for reports and JSON.

use super::MeasuredWindow;
use crate::replications::Replications;
use serde::Serialize;

/// The runs behind an answer, which are measured over a virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunsAnswer {
    /// Runs, each with another seed. Figures are means over them, with intervals of 95 % by Student's distribution.
    pub seeds: u32,
    /// Whether all windows were steady. False where the file changes the machine in its window, which is then measured
    /// as it is.
    pub is_steady: bool,
    /// Whether the file's warm-up was too short for a run, so that its window was extended.
    pub is_warm_up_extended: bool,
    /// Whether a run still fluctuated when its window could not be extended any more. The intervals show how much.
    pub is_noisy: bool,
    /// The file's warm-up.
    pub given_warm_up_us: f64,
    /// Longest warm-up of a run.
    pub warm_up_us: f64,
    /// Longest window of a run.
    pub measured_us: f64,
}

/// The runs behind an answer, which are measured over a number of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CountedRunsAnswer {
    /// Runs, each with another seed. Figures are means over them, with intervals of 95 % by Student's distribution.
    pub seeds: u32,
    /// Whether anything depends on the seed. Otherwise there is one run, and intervals have no width.
    pub is_random: bool,
    /// Whether all measured operations were in a steady state. False for programs, which are measured from their
    /// beginning to their end.
    pub is_steady: bool,
    /// Whether the given number of operations was too small for a run, so that more were measured.
    pub is_warm_up_extended: bool,
    /// Whether a run still fluctuated when no more operations could be measured. The intervals show how much.
    pub is_noisy: bool,
    /// Most operations before those that are measured.
    pub warm_up_operations: u64,
    /// Most operations measured in a run.
    pub measured_operations: u64,
}

impl RunsAnswer {
    pub(crate) fn of<Outcome>(
        runs: &Replications<Outcome>,
        given_warm_up_us: f64,
        window: impl Fn(&Outcome) -> MeasuredWindow,
    ) -> Self {
        let windows = || runs.iter().map(&window);
        let longest = |of: fn(&MeasuredWindow) -> des::Span| {
            windows().map(|window| of(&window)).fold(des::Span::ZERO, des::Span::max).as_ns_f64() / 1e3
        };
        Self {
            seeds: runs.count(),
            is_steady: windows().all(|window| window.is_checked),
            is_warm_up_extended: windows().any(|window| window.is_extended),
            is_noisy: windows().any(|window| window.is_noisy),
            given_warm_up_us,
            warm_up_us: longest(|window| window.warm_up),
            measured_us: longest(|window| window.measured),
        }
    }
}

impl CountedRunsAnswer {
    pub(crate) fn of<Outcome>(
        runs: &Replications<Outcome>,
        is_random: bool,
        window: impl Fn(&Outcome) -> MeasuredWindow<u64>,
    ) -> Self {
        let windows = || runs.iter().map(&window);
        Self {
            seeds: runs.count(),
            is_random,
            is_steady: windows().all(|window| window.is_checked),
            is_warm_up_extended: windows().any(|window| window.is_extended),
            is_noisy: windows().any(|window| window.is_noisy),
            warm_up_operations: windows().map(|window| window.warm_up).max().unwrap_or_default(),
            measured_operations: windows().map(|window| window.measured).max().unwrap_or_default(),
        }
    }
}
