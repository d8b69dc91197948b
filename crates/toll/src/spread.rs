//! How a count varies from window to window.

use serde::{Deserialize, Serialize};

/// Counts of all windows of a workload, in a few numbers. All of them are counts that windows had: with an
/// even number of windows the median is the lower of the middle two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
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
    /// Windows whose count is exactly the median: nearly all of them, where results repeat.
    pub at_median: u32,
}
