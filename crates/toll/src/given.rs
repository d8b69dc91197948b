//! Values with their evidence.

use crate::Evidence;
use serde::{Deserialize, Serialize};

/// A parameter of a model, or a price. The name of its field has the unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Given<T = f64> {
    /// The value.
    pub value: T,
    /// Where the value comes from.
    pub evidence: Evidence,
}
