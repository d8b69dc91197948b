//! Why no window of a simulation was steady.

use super::{NOISE_MAX, NOISE_REFUSED, PASSES, TOLERANCE};
use std::fmt::{self, Display, Formatter};

/// A number that changed in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drift {
    /// No work was done.
    Nothing {
        /// The unit of work.
        unit: &'static str,
    },
    /// The halves' rates differ.
    Rate {
        /// The unit of work.
        unit: &'static str,
        /// The second half less the first, as a share of the mean.
        difference_share: f64,
    },
    /// The batches differ so much that a drift could hide among them.
    Noise {
        /// The unit of work.
        unit: &'static str,
        /// How much the halves may differ by chance, as a share of the mean.
        noise_share: f64,
    },
    /// The window is too short for the time that work takes: what is inside did not pass often enough.
    Short {
        /// What it is.
        name: &'static str,
        /// How much of it is inside.
        inside: f64,
        /// How much came in the window.
        entered: f64,
    },
    /// Something piled up in the machine, or ran out.
    Level {
        /// What it is.
        name: &'static str,
        /// By how many it grew.
        growth: f64,
        /// How many came in the window.
        entered: f64,
        /// Whether it drifts: the halves' means differ by more than the batches' fluctuation.
        is_trend: bool,
    },
}

impl Drift {
    /// Whether it may be chance, and is small enough to show in the interval over the seeds: then a window that can't be extended is
    /// steady all the same.
    pub(super) fn is_small_noise(&self) -> bool {
        match *self {
            Self::Noise { noise_share, .. } => noise_share < NOISE_REFUSED,
            Self::Level { growth, entered, is_trend, .. } => !is_trend && growth.abs() <= NOISE_MAX * entered,
            Self::Nothing { .. } | Self::Rate { .. } | Self::Short { .. } => false,
        }
    }
}

impl Display for Drift {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nothing { unit } => write!(out, "no {unit} in the window"),
            Self::Rate { unit, difference_share } => {
                let word = if difference_share > 0.0 { "more" } else { "less" };
                let (first, second) = (1.0 - difference_share / 2.0, 1.0 + difference_share / 2.0);
                if first <= 0.0 {
                    return write!(out, "{unit}: none in the first half of the window");
                }
                let percent = 100.0 * (second / first - 1.0).abs();
                write!(
                    out,
                    "{unit}: {percent:.1} % {word} in the second half of the window than in the first; expected {:.0} % at \
                     most",
                    100.0 * TOLERANCE
                )
            }
            Self::Noise { unit, noise_share } => {
                let percent = 100.0 * noise_share;
                write!(
                    out,
                    "{unit}: too few to compare halves of the window, {percent:.1} % apart by chance; expected {:.0} % \
                     at most",
                    100.0 * NOISE_REFUSED
                )
            }
            Self::Short { name, inside, entered } => write!(
                out,
                "{name}: {entered:.0} came in the window, and {inside:.0} are inside; expected {PASSES} times as many"
            ),
            Self::Level { name, growth, entered, .. } => {
                let word = if growth > 0.0 { "more" } else { "fewer" };
                let (growth, percent) = (growth.abs(), 100.0 * growth.abs() / entered.max(1.0));
                write!(
                    out,
                    "{name}: {growth:.0} {word} at the end of the window than at its beginning, {percent:.1} % of the \
                     {entered:.0} that came; expected {:.0} % at most",
                    100.0 * TOLERANCE
                )
            }
        }
    }
}

/// No window of the simulation was steady: there is no rate to report.
#[derive(Debug, Clone, PartialEq)]
pub struct Unsteady {
    /// What came before the last window: a virtual time, or a number of operations.
    pub warm_up: String,
    /// Length of the last window.
    pub measured: String,
    /// What drifted in it.
    pub drifts: Vec<Drift>,
}

impl Display for Unsteady {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { warm_up, measured, drifts } = self;
        let drifts: Vec<String> = drifts.iter().map(Drift::to_string).collect();
        write!(
            out,
            "no steady state: after {warm_up} of warm-up and in a window of {measured}: {}",
            drifts.join("; ")
        )
    }
}

impl std::error::Error for Unsteady {}
