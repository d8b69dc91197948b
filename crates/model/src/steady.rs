//! Steady state: whether a measured window shows what a machine sustains.
//!
//! ```text
//!   0 --warm-up-- |-- window: 20 batches of equal length --|
//!                 ^ sample      ^ sample ... after each    ^ compare halves: rate, and every number inside
//!                                                          |
//!           steady: measured. Else this window becomes warm-up, and one twice as long follows; or an error
//! ```
//!
//! A throughput alone does not show it. A host that maps faster than it unmaps has the same rate in both halves, and
//! lives on buffers that nobody has unmapped yet. So each window compares two things:
//!
//! - **The rate.** The means of both halves must agree within [`TOLERANCE`], or within the noise of batch means,
//!   which itself must be small.
//! - **What is inside.** Mappings, queued tasks, waiting frames and bytes in flight may not grow or shrink by more than
//!   [`TOLERANCE`] of what came in. What piled up was not paid for, so this also bounds the error of the rate.
//!
//! A cache counts among them: while it fills, lookups miss that later hit.
//!
//! And a window must be longer than the work in flight takes, by [`PASSES`].
//!
//! fio compares the slope of a rate over a rolling window (`steadystate`), and MSER-5 truncates a series where the
//! error of its mean is least. Neither looks at more than the series itself.

mod drift;
mod measurement;
mod runs_answer;
mod sample;
mod unsteady;

pub use measurement::MeasuredWindow;
pub use runs_answer::{CountedRunsAnswer, RunsAnswer};
pub use unsteady::{Drift, Unsteady};

pub(crate) use measurement::{Measurement, Progress};
pub(crate) use sample::{CacheUse, Level, Sample};

/// Batches of a window. Ten for each half give Student's test 18 degrees of freedom; more would be shorter than what a
/// queue takes to forget (Schmeiser, "Batch size effects in the analysis of simulation output", 1982: 10 to 30).
pub(crate) const BATCHES: usize = 20;
/// Share by which the halves' rates may differ, and by which a number inside may grow of what came in.
pub(crate) const TOLERANCE: f64 = 0.01;
/// Most noise of the halves' difference, as a share of the rate. A drift that is smaller could hide in it. More extends
/// the window,
pub(crate) const NOISE_MAX: f64 = 0.05;
/// and this much refuses it when it can't be extended any more. Less shows in the interval over the seeds.
pub(crate) const NOISE_REFUSED: f64 = 0.25;
/// How often a window must see the work that is in flight pass. By Little's law it is then as many times as long as the work
/// takes, and latencies are not only those of the quick.
pub(crate) const PASSES: f64 = 10.0;
