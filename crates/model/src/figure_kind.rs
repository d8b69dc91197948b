//! What agreement with a published figure proves, for each row of a study.

use serde::{Deserialize, Serialize};

/// How the model comes to a figure. The first kind that fits a row is its kind.
///
/// Any row but a calibrated one can miss. A hit counts only where the kind is [`OutOfSample`](Self::OutOfSample): elsewhere
/// something else than the model made it a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    /// A parameter was changed for this run, and the figure with it: the row is neither calibrated nor a prediction of the study.
    Changed,
    /// A parameter was chosen so that the model meets the figure.
    Calibrated,
    /// The same run or the same value as another row, which the row names.
    Repeats,
    /// A wire, a link or a port limits; the figure is its rate.
    Saturated,
    /// The figure is an input, or follows from inputs by arithmetic or by one decision of the code.
    Rule,
    /// The structure of the model, or a constant in it, was chosen with the figure in view.
    StructureChosen,
    /// It lies between calibrated points of the same curve.
    Interpolated,
    /// Nothing was chosen with the figure in view, and the mechanism of the model makes it.
    OutOfSample,
}

impl FigureKind {
    /// All kinds that a study's file can give a row, in the order of the type.
    pub const OF_ROWS: [Self; 7] = [
        Self::Calibrated,
        Self::Repeats,
        Self::Saturated,
        Self::Rule,
        Self::StructureChosen,
        Self::Interpolated,
        Self::OutOfSample,
    ];

    /// The word for it, in tables and on pages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Calibrated => "calibrated",
            Self::Repeats => "repeats",
            Self::Saturated => "saturated",
            Self::Rule => "rule",
            Self::StructureChosen => "structure chosen",
            Self::Interpolated => "interpolated",
            Self::OutOfSample => "out of sample",
        }
    }

    /// Whether a figure of this kind that is too far off is a miss.
    pub fn can_miss(self) -> bool {
        self != Self::Calibrated
    }
}
