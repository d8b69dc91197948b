//! A choice of which some are more likely.

use crate::Stream;

/// Whole numbers say how likely each is, so that sums are exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// By index, the weights up to and with it.
    sums: Vec<u64>,
}

/// There is nothing to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadWeights {
    /// No weight at all, or zeros.
    #[error("of weights, one at least must be more than zero")]
    Nothing,
    /// They don't fit into 64 bits.
    #[error("weights add up to more than 2^64 - 1 at index {index}")]
    TooHeavy {
        /// Of the first that is too much.
        index: usize,
    },
}

impl Weights {
    /// The likelihood of each index, relative to the others.
    pub fn new(weights: &[u64]) -> Result<Self, BadWeights> {
        let mut total = 0u64;
        let mut sums = Vec::with_capacity(weights.len());
        for (index, weight) in weights.iter().enumerate() {
            total = total.checked_add(*weight).ok_or(BadWeights::TooHeavy { index })?;
            sums.push(total);
        }
        if total == 0 { Err(BadWeights::Nothing) } else { Ok(Self { sums }) }
    }

    /// An index by its weight; one without weight never.
    pub fn choose(&self, stream: &mut Stream) -> usize {
        let drawn = stream.below(self.sums.last().copied().unwrap_or(0));
        self.sums.partition_point(|sum| *sum <= drawn)
    }
}
