//! Determines which kind of experiment a user's file describes.

use crate::answer::Kind;
use crate::block::BlockExperiment;
use crate::experiment::Experiment;
use crate::flash_array::FlashArrayExperiment;
use crate::infiniband::AdaptersExperiment;
use crate::memory_type::MemoryExperiment;
use crate::network::HostsExperiment;
use crate::user_file::{ExperimentError, InvalidField};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use toll::TomlText;

/// Tables that only files of another kind have: the kind, and the command that runs it.
const OTHER_KINDS: [(&str, &str, &str); 2] =
    [("about", "study", "iotoll reproduce"), ("axes", "sweep", "iotoll sweep")];

/// What is wrong with a table that should describe an experiment.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Fields are missing, unknown or of another type.
    #[error("{}", .0.to_string().trim_end().replace('\n', "; "))]
    Form(toml::de::Error),
    /// A field is out of range.
    #[error("{field} is {value}; expected {expected}")]
    Value {
        /// Its dotted name.
        field: Cow<'static, str>,
        /// Its value.
        value: String,
        /// Allowed values.
        expected: Cow<'static, str>,
    },
}

impl From<toml::de::Error> for TableError {
    fn from(error: toml::de::Error) -> Self {
        Self::Form(error)
    }
}

impl From<InvalidField> for TableError {
    fn from(InvalidField { field, value, expected }: InvalidField) -> Self {
        Self::Value { field, value, expected }
    }
}

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
        Ok(match Kind::of(&table) {
            Kind::Network => Self::Hosts(Box::new(HostsExperiment::read(text, file)?)),
            Kind::Block => Self::Block(Box::new(BlockExperiment::read(text, file)?)),
            Kind::FlashArray => Self::FlashArray(Box::new(FlashArrayExperiment::read(text, file)?)),
            Kind::MemoryTypes => Self::Memory(Box::new(MemoryExperiment::read(text, file)?)),
            Kind::Infiniband => Self::Adapters(Box::new(AdaptersExperiment::read(text, file)?)),
            Kind::Engine => Self::Engine(Box::new(Experiment::read(text, file)?)),
        })
    }

    /// The experiment that a table describes.
    ///
    /// # Errors
    /// [`TableError`]
    pub fn from_table(table: toml::Table) -> Result<Self, TableError> {
        fn experiment<T: DeserializeOwned>(
            table: toml::Table,
            invalid: impl Fn(&T) -> Option<InvalidField>,
        ) -> Result<Box<T>, TableError> {
            let experiment: T = table.try_into()?;
            invalid(&experiment).map_or_else(|| Ok(Box::new(experiment)), |field| Err(field.into()))
        }
        Ok(match Kind::of(&table) {
            Kind::Network => Self::Hosts(experiment(table, HostsExperiment::invalid_field)?),
            Kind::Block => Self::Block(experiment(table, BlockExperiment::invalid_field)?),
            Kind::FlashArray => Self::FlashArray(experiment(table, FlashArrayExperiment::invalid_field)?),
            Kind::MemoryTypes => Self::Memory(experiment(table, MemoryExperiment::invalid_field)?),
            Kind::Infiniband => Self::Adapters(experiment(table, AdaptersExperiment::invalid_field)?),
            Kind::Engine => Self::Engine(experiment(table, Experiment::invalid_field)?),
        })
    }
}

impl Kind {
    /// The kind of machine that a table describes.
    fn of(table: &toml::Table) -> Self {
        let own = [
            ("client", Self::Network),
            ("jobs", Self::Block),
            ("array", Self::FlashArray),
            ("mtrr", Self::MemoryTypes),
            ("adapter", Self::Infiniband),
        ];
        own.into_iter().find(|(key, _)| table.contains_key(*key)).map_or(Self::Engine, |(_, kind)| kind)
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
