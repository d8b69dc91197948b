//! Expected gains of a fix.

use crate::Evidence;
use serde::{Deserialize, Serialize};

/// An expected gain, in words that name the quantity and its unit, with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gain {
    /// For example `UDP request/response latency 21 % better (mean)`.
    pub what: String,
    /// Where the figure comes from; also says on which machine it was seen.
    pub evidence: Evidence,
}
