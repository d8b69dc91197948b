//! Parameters: values with where they come from.

use serde::{Deserialize, Serialize};
use toll::Evidence;

/// A parameter of a model. Its unit is in its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given<T = f64> {
    /// How much it is.
    pub value: T,
    /// Where that comes from.
    pub evidence: Evidence,
}
