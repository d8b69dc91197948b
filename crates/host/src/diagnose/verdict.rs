//! The DMA path of one adapter, with what it was concluded from.

use crate::Citation;
use toll::DmaPath;

/// An adapter's DMA path with what it was concluded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The DMA path.
    pub dma_path: DmaPath,
    /// Why, in words: always for `unknown`, else where the lines alone don't show it.
    pub reason: Option<String>,
    /// The lines it was concluded from.
    pub evidence: Vec<Citation>,
}

/// A verdict with these parts.
pub(super) fn verdict(dma_path: DmaPath, reason: Option<String>, evidence: Vec<Citation>) -> Verdict {
    Verdict { dma_path, reason, evidence }
}

/// The verdict that the DMA path is unknown, and why.
pub(super) fn unknown(reason: &str, evidence: Vec<Citation>) -> Verdict {
    verdict(DmaPath::Unknown, Some(reason.to_owned()), evidence)
}
