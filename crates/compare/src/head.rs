//! The head of a document as it is read: what it comes from, and the machine.
//!
//! It is read on its own: with `serde(flatten)` errors would lose their place.

use crate::document::{Checked, Flaw};
use bench::HostSummary;
use serde::Deserialize;

/// Fields of all documents but toll sheets.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ReadHead {
    pub(crate) made_by: String,
    pub(crate) command: Vec<String>,
    pub(crate) date: String,
    pub(crate) machine: HostSummary,
    pub(crate) warnings: Vec<String>,
}

impl Checked for ReadHead {
    fn check(&self) -> Result<(), Flaw> {
        Ok(())
    }
}

/// What a benchmark was asked to measure.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Settings {
    pub(crate) settings: serde_json::Map<String, serde_json::Value>,
}

impl Checked for Settings {
    fn check(&self) -> Result<(), Flaw> {
        Ok(())
    }
}
