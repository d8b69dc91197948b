//! Where a number comes from.

use serde::{Deserialize, Serialize};

/// The origin of a number. Every number has one, and every output shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Evidence {
    /// Obtained by running something.
    Measured {
        /// The command or procedure.
        how: String,
        /// The machine it ran on.
        on: String,
    },
    /// Read in a publication.
    Published {
        /// Title, author and year.
        source: String,
    },
    /// Chosen so that a model meets a measured or published figure.
    Calibrated {
        /// The figure that was met.
        against: String,
    },
    /// Assumed.
    Assumed {
        /// Why it is a reasonable assumption.
        why: String,
    },
}

impl std::fmt::Display for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Measured { how, on } => write!(f, "measured: {how}, on {on}"),
            Self::Published { source } => write!(f, "published: {source}"),
            Self::Calibrated { against } => write!(f, "calibrated against {against}"),
            Self::Assumed { why } => write!(f, "assumed: {why}"),
        }
    }
}
