//! The DMA path of one adapter, with what it was concluded from.

use crate::Citation;
use toll::DmaPath;

/// An adapter's DMA path with what it was concluded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The DMA path.
    pub dma_path: DmaPath,
    /// What must be the case for it, where nothing read tells: `a driver of the kernel uses it`.
    pub condition: Option<String>,
    /// Why, in words: always for `unknown`, else where the lines alone don't show it.
    pub reason: Option<String>,
    /// The lines it was concluded from.
    pub evidence: Vec<Citation>,
}

/// A verdict with these parts.
pub(super) fn verdict(dma_path: DmaPath, reason: Option<String>, evidence: Vec<Citation>) -> Verdict {
    Verdict { dma_path, condition: None, reason, evidence }
}

impl Verdict {
    /// The same, if `condition` holds too. `unknown` stays as it is.
    pub(super) fn provided_that(mut self, condition: &str) -> Self {
        if self.dma_path != DmaPath::Unknown {
            self.condition = Some(match self.condition.take() {
                Some(first) => format!("{first}, and {condition}"),
                None => condition.to_owned(),
            });
        }
        self
    }
}

/// The verdict that the DMA path is unknown, and why.
pub(super) fn unknown(reason: &str, evidence: Vec<Citation>) -> Verdict {
    verdict(DmaPath::Unknown, Some(reason.to_owned()), evidence)
}
