//! One of the runs whose mean the figures of a study are.

use super::Changes;

/// A run of a study: the user's changes of parameters, and the seed of its random choices. A seed assigns flows to rings, places
/// buffers and orders threads, as each run of a real test does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replication<'a> {
    pub(super) changes: &'a Changes,
    pub(super) seed: u64,
}

impl Replication<'_> {
    /// Seed of the first run.
    pub(super) const FIRST_SEED: u64 = 1;

    /// Whether the run also computes lines that are only drawn. Those of the first are enough.
    pub(super) fn draws(&self) -> bool {
        self.seed == Self::FIRST_SEED
    }
}

#[cfg(test)]
impl<'a> Replication<'a> {
    /// The first run.
    pub(super) fn first(changes: &'a Changes) -> Self {
        Self { changes, seed: Self::FIRST_SEED }
    }
}
