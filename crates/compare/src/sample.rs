//! What a confidence interval is from: the rounds within runs, or the runs themselves.

use crate::both::Both;
use serde::Serialize;

/// Intervals are from runs if each side has at least so many. The spread of two values has one degree of freedom, with which an interval reaches
/// 12.7 standard errors to either side and says next to nothing; with three it is 4.3.
pub const RUNS_MIN: usize = 3;
/// Documents of a side at most.
pub const RUNS_MAX: usize = 100;

/// What differs in a confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Sample {
    /// Rounds or intervals within a run. What differs from run to run is not in the interval.
    Rounds,
    /// Runs: a document is one value, and its rounds do not enter the interval (Kalibera and Jones, Rigorous Benchmarking in Reasonable
    /// Time, 2013: the level of repetition that varies most must be repeated).
    Runs,
}

impl Sample {
    /// What intervals are from if the sides have so many documents.
    pub fn of(before: usize, after: usize) -> Self {
        if before.min(after) >= RUNS_MIN { Self::Runs } else { Self::Rounds }
    }
}

/// Why a figure has no interval from runs, if too few documents have it: of each side how many do.
pub(crate) fn too_few_runs(have: Both<usize>) -> Option<String> {
    let few = have.with_sides().into_iter().find(|(_, number)| *number < RUNS_MIN);
    few.map(|(side, number)| {
        let documents = if number == 1 { "document has it" } else { "documents have it" };
        format!("{}: {number} {documents}: a confidence interval from runs needs {RUNS_MIN}", side.word())
    })
}

/// The mean. Of equal values it is exactly that value, which a sum that is divided is not.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let Some(first) = values.first() else { return f64::NAN };
    first + values.iter().map(|value| value - first).sum::<f64>() / values.len() as f64
}
