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

impl Spread {
    /// The distribution of some counts; `None` without counts. The 99th percentile is by nearest rank.
    pub fn of(mut counts: Vec<u64>) -> Option<Self> {
        counts.sort_unstable();
        let median = *counts.get(counts.len().checked_sub(1)? / 2)?;
        let rank_99 = (counts.len() * 99).div_ceil(100);
        Some(Self {
            median,
            min: *counts.first()?,
            p99: *counts.get(rank_99.checked_sub(1)?)?,
            max: *counts.last()?,
            at_median: u32::try_from(counts.iter().filter(|count| **count == median).count()).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_spread_is_in_order(counts in proptest::collection::vec(0_u64..1000, 1..100)) {
            let spread = Spread::of(counts.clone()).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.p99 && spread.p99 <= spread.max);
            prop_assert!(counts.contains(&spread.median) && spread.at_median >= 1);
        }
    }
}
