//! Values with where they come from.

use crate::Evidence;
use serde::{Deserialize, Serialize};

/// A value somebody gives: a parameter of a model, a price. Its unit is in its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Given<T = f64> {
    /// How much it is.
    pub value: T,
    /// Where that comes from.
    pub evidence: Evidence,
}
