//! The distribution of a count over windows.

use serde::{Deserialize, Serialize};

/// The distribution of the counts of a workload's windows. Each number is the count of a window: with an even number of windows the median
/// is the lower of the middle two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// The median.
    pub median: u64,
    /// The smallest.
    pub min: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
    /// Number of windows whose count is exactly the median: nearly all, if results are repeatable.
    pub at_median: u32,
}
