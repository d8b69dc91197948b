//! A user's file: of an engine, or of two hosts.

use crate::experiment::{Experiment, ExperimentError};
use crate::network::HostsExperiment;

/// What a file describes.
#[derive(Debug, Clone, PartialEq)]
pub enum Description {
    /// An adapter's DMA engine behind an IOMMU.
    Engine(Box<Experiment>),
    /// Two hosts that talk: what has a client.
    Hosts(Box<HostsExperiment>),
}

impl Description {
    /// Reads a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let form = |source| ExperimentError::Form { file: file.to_owned(), source };
        let table: toml::Table = toml::from_str(text).map_err(form)?;
        if table.contains_key("client") {
            return HostsExperiment::read(text, file).map(Box::new).map(Self::Hosts);
        }
        Experiment::read(text, file).map(Box::new).map(Self::Engine)
    }
}
