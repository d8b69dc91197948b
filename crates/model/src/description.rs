//! A user's file: of an engine, two hosts, a host with a disk or an array, memory types, or InfiniBand adapters.

use crate::block::BlockExperiment;
use crate::experiment::Experiment;
use crate::flash_array::FlashArrayExperiment;
use crate::infiniband::AdaptersExperiment;
use crate::memory_type::MemoryExperiment;
use crate::network::HostsExperiment;
use crate::user_file::ExperimentError;
use toll::TomlText;

/// What a file describes.
#[derive(Debug, Clone, PartialEq)]
pub enum Description {
    /// An adapter's DMA engine behind an IOMMU.
    Engine(Box<Experiment>),
    /// Two hosts that talk: what has a client.
    Hosts(Box<HostsExperiment>),
    /// A host under block jobs: what has jobs.
    Block(Box<BlockExperiment>),
    /// A host with an array of flash: what has an array.
    FlashArray(Box<FlashArrayExperiment>),
    /// Memory that a driver shares with a card: what has registers.
    Memory(Box<MemoryExperiment>),
    /// InfiniBand adapters with and without memory: what has an adapter.
    Adapters(Box<AdaptersExperiment>),
}

impl Description {
    /// Reads a file's text; `file` is its name, for errors.
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
