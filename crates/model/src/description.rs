//! Determines which kind of experiment a user's file describes.

use crate::answer::Kind;
use crate::block::BlockExperiment;
use crate::experiment::Experiment;
use crate::flash_array::FlashArrayExperiment;
use crate::infiniband::AdaptersExperiment;
use crate::memory_type::MemoryExperiment;
use crate::network::HostsExperiment;
use crate::replications::SEEDS;
use crate::user_file::ExperimentError;
use std::borrow::Cow;
use toll::{FieldProblem, TomlText, WrittenTable};

/// Tables that only files of another kind have: the kind, and the command that runs it.
const OTHER_KINDS: [(&str, &str, &str); 2] =
    [("about", "study", "iotoll reproduce"), ("axes", "sweep", "iotoll sweep")];

/// What is wrong with a table that should describe an experiment.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Fields are missing, unknown or of another type.
    #[error(transparent)]
    Form(#[from] FieldProblem),
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
    /// How many runs with consecutive seeds it is; 1 where nothing depends on chance.
    pub fn seeds(&self) -> u32 {
        match self {
            Self::Engine(experiment) => experiment.seeds.unwrap_or(SEEDS),
            Self::Hosts(experiment) => experiment.seeds,
            Self::Block(experiment) => experiment.seeds,
            Self::FlashArray(experiment) => experiment.seeds,
            Self::Memory(_) => 1,
            Self::Adapters(experiment) => experiment.seeds,
        }
    }

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
    pub fn from_table(table: &toml::Table) -> Result<Self, TableError> {
        let written = WrittenTable::of(table)?;
        let read = Self::read(written.text(), "the table").map_err(|error| match error {
            ExperimentError::Form(problem) => written.in_table(problem).into(),
            ExperimentError::Value { field, value, expected, .. } => {
                TableError::Value { field, value, expected }
            }
            ExperimentError::OtherKind { .. } => {
                FieldProblem { field: String::new(), problem: error.to_string() }.into()
            }
        })?;
        // A file of jobs may replace those of a file, but a table has all that runs.
        if let Self::Block(experiment) = &read {
            experiment
                .setup()
                .map_err(|error| FieldProblem { field: "jobs".to_owned(), problem: error.in_jobs() })?;
        }
        Ok(read)
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
    fn what_is_wrong_with_a_table_is_said_with_its_field() {
        let engine = include_str!("../../../experiments/engine.toml");
        let refusal = |text: &str, from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let table: toml::Table = text.replacen(from, to, 1).parse().unwrap();
            match Description::from_table(&table).unwrap_err() {
                TableError::Form(problem) => problem.field,
                TableError::Value { field, .. } => field.into_owned(),
            }
        };
        assert_eq!(refusal(engine, "window_bytes", "windw_bytes"), "engine.windw_bytes");
        assert_eq!(refusal(engine, "what = ", "why = "), "why");
        assert_eq!(refusal(engine, "window_bytes = 1048576\n", ""), "engine");
        assert_eq!(refusal(engine, "window_bytes = 1048576", "window_bytes = 7"), "engine.window_bytes");
        assert_eq!(refusal(engine, "what = ", "#"), "", "the outermost table lacks it");
        // Jobs have lines that look like headers of tables.
        let disk = include_str!("../../../experiments/nvme.toml");
        assert_eq!(refusal(disk, "ioengine=", "ioengine=no-"), "jobs");
        assert_eq!(refusal(disk, "direct=1", "direct=0"), "jobs");
        assert_eq!(refusal(disk, "[cpus]", "[cpuz]"), "cpuz");
        assert_eq!(refusal(disk, "what = ", "seed = \"x\"\nwhat = "), "seed");
    }

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
