//! Determines which kind of experiment a user's file describes.

use crate::block::BlockExperiment;
use crate::experiment::Experiment;
use crate::flash_array::FlashArrayExperiment;
use crate::infiniband::AdaptersExperiment;
use crate::memory_type::MemoryExperiment;
use crate::network::HostsExperiment;
use crate::user_file::ExperimentError;
use toll::TomlText;

/// An experiment, by kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Description {
    /// An adapter's DMA engine behind an IOMMU.
    Engine(Box<Experiment>),
    /// Two hosts on a network: the file has a client.
    Hosts(Box<HostsExperiment>),
    /// A host under block I/O jobs: the file has jobs.
    Block(Box<BlockExperiment>),
    /// A host with a flash array: the file has an array.
    FlashArray(Box<FlashArrayExperiment>),
    /// Memory shared by a driver and a card: the file has MTRRs.
    Memory(Box<MemoryExperiment>),
    /// InfiniBand adapters: the file has an adapter.
    Adapters(Box<AdaptersExperiment>),
}

impl Description {
    /// Parses a file's text; `file` is its name, for errors.
    ///
    /// # Errors
    /// [`ExperimentError`]
    pub fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let table: toml::Table = TomlText::new(text, file).read()?;
        if table.contains_key("client") {
            return HostsExperiment::read(text, file).map(Box::new).map(Self::Hosts);
        }
        if table.contains_key("jobs") {
            return BlockExperiment::read(text, file).map(Box::new).map(Self::Block);
        }
        if table.contains_key("array") {
            return FlashArrayExperiment::read(text, file).map(Box::new).map(Self::FlashArray);
        }
        if table.contains_key("mtrr") {
            return MemoryExperiment::read(text, file).map(Box::new).map(Self::Memory);
        }
        if table.contains_key("adapter") {
            return AdaptersExperiment::read(text, file).map(Box::new).map(Self::Adapters);
        }
        Experiment::read(text, file).map(Box::new).map(Self::Engine)
    }
}
