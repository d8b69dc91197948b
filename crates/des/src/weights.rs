//! Weighted random choice.

use crate::Stream;

/// Weights of a choice. They are integers, so that their sums are exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// Cumulative sums.
    sums: Vec<u64>,
}

/// Invalid weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadWeights {
    /// No weight above zero.
    #[error("no weight is above zero; expected at least one")]
    Nothing,
    /// The sum exceeds 64 bits.
    #[error("the weights add up to more than 2^64 - 1 at index {index}")]
    TooHeavy {
        /// The first index at which it does.
        index: usize,
    },
}

impl Weights {
    /// A choice with these weights.
    pub fn new(weights: &[u64]) -> Result<Self, BadWeights> {
        let mut total = 0u64;
        let mut sums = Vec::with_capacity(weights.len());
        for (index, weight) in weights.iter().enumerate() {
            total = total.checked_add(*weight).ok_or(BadWeights::TooHeavy { index })?;
            sums.push(total);
        }
        if total == 0 { Err(BadWeights::Nothing) } else { Ok(Self { sums }) }
    }

    /// A random index, with a probability proportional to its weight.
    pub fn choose(&self, stream: &mut Stream) -> usize {
        let drawn = stream.below(self.sums.last().copied().unwrap_or(0));
        self.sums.partition_point(|sum| *sum <= drawn)
    }
}
