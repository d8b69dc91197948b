//! Determines which kind of experiment a user's file describes.

use crate::block::BlockExperiment;
use crate::experiment::Experiment;
use crate::flash_array::FlashArrayExperiment;
use crate::infiniband::AdaptersExperiment;
use crate::memory_type::MemoryExperiment;
use crate::network::HostsExperiment;
use crate::user_file::ExperimentError;
use toll::TomlText;

/// Tables that only files of another kind have: the kind, and the command that runs it.
const OTHER_KINDS: [(&str, &str, &str); 2] =
    [("about", "study", "iotoll reproduce"), ("axes", "sweep", "iotoll sweep")];

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
        for (key, kind, command) in OTHER_KINDS {
            if table.contains_key(key) {
                return Err(ExperimentError::OtherKind { file: file.to_owned(), kind, command });
            }
        }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn studies_and_sweeps_are_refused_with_the_command_that_runs_them() {
        let refusal = |text: &str| Description::read(text, "x.toml").unwrap_err().to_string();
        let study = "x.toml describes a study; expected an experiment; `iotoll reproduce` runs a study";
        assert_eq!(refusal(include_str!("../experiments/memmap.toml")), study);
        assert_eq!(refusal(include_str!("../experiments/iotlb.toml")), study);
        let sweep = "x.toml describes a sweep; expected an experiment; `iotoll sweep` runs a sweep";
        assert_eq!(refusal(include_str!("../experiments/sweep.toml")), sweep);
    }
}
