//! What came out of any experiment, and the document of it.

use crate::block::{BlockAnswer, JobsError};
use crate::description::Description;
use crate::experiment::EngineAnswer;
use crate::file_evidence::FileEvidence;
use crate::flash_array::{FlashArrayAnswer, FlashArrayError};
use crate::infiniband::{AdaptersAnswer, AdaptersError};
use crate::memory_type::MemoryAnswer;
use crate::network::{HostsAnswer, NetworkError};
use crate::steady::Unsteady;
use crate::user_file::ExperimentError;
use serde::Serialize;

/// The version of the document's layout.
pub const DOCUMENT_SCHEMA: &str = "iotoll.model/3";

/// What came out of an experiment, by the kind of machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// An adapter's DMA engine.
    Engine(EngineAnswer),
    /// Memory shared by a driver and a card.
    MemoryTypes(MemoryAnswer),
    /// Two hosts and their network.
    Network(HostsAnswer),
    /// A host with a disk.
    Block(BlockAnswer),
    /// A host with a flash array.
    FlashArray(FlashArrayAnswer),
    /// InfiniBand adapters.
    Infiniband(AdaptersAnswer),
}

/// Why an experiment has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An engine whose window was never steady.
    #[error(transparent)]
    Engine(#[from] Unsteady),
    /// Memory that no machine has.
    #[error(transparent)]
    Memory(#[from] ExperimentError),
    /// Two hosts.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A host with a disk, or its jobs.
    #[error(transparent)]
    Block(#[from] JobsError),
    /// A host with a flash array.
    #[error(transparent)]
    FlashArray(#[from] FlashArrayError),
    /// InfiniBand adapters, or what their processes do.
    #[error(transparent)]
    Infiniband(#[from] AdaptersError),
}

impl RunError {
    /// Whether the error names the job file or trace that it is about. All others are about the experiment.
    pub fn names_its_file(&self) -> bool {
        match self {
            Self::Memory(_) | Self::Infiniband(_) => true,
            Self::Block(error) => error.is_of_jobs(),
            Self::Engine(_) | Self::Network(_) | Self::FlashArray(_) => false,
        }
    }
}

impl Description {
    /// Simulates it once for each of its seeds.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn run(&self) -> Result<Answer, RunError> {
        Ok(match self {
            Self::Engine(engine) => Answer::Engine(engine.run()?),
            Self::Memory(memory) => Answer::MemoryTypes(memory.run()?),
            Self::Hosts(hosts) => Answer::Network(hosts.run()?),
            Self::Block(host) => Answer::Block(host.run()?),
            Self::FlashArray(host) => Answer::FlashArray(host.run()?),
            Self::Adapters(adapters) => Answer::Infiniband(adapters.run()?),
        })
    }

    /// The kind of machine.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Engine(_) => Kind::Engine,
            Self::Memory(_) => Kind::MemoryTypes,
            Self::Hosts(_) => Kind::Network,
            Self::Block(_) => Kind::Block,
            Self::FlashArray(_) => Kind::FlashArray,
            Self::Adapters(_) => Kind::Infiniband,
        }
    }
}

/// What `iotoll model run --json` prints. `kind` names the one answer that is not null.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Document<'a> {
    /// `iotoll.model/3`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'a str,
    /// The file of the experiment.
    file: &'a str,
    /// Which of the answers is given.
    kind: Kind,
    /// Where the values of the file come from.
    evidence: &'a FileEvidence,
    /// The answer about an adapter's DMA engine.
    engine: Option<&'a EngineAnswer>,
    /// The answer about memory types.
    memory_types: Option<&'a MemoryAnswer>,
    /// The answer about two hosts and their network.
    network: Option<&'a HostsAnswer>,
    /// The answer about a host with a disk.
    block: Option<&'a BlockAnswer>,
    /// The answer about a host with a flash array.
    flash_array: Option<&'a FlashArrayAnswer>,
    /// The answer about InfiniBand adapters.
    infiniband: Option<&'a AdaptersAnswer>,
}

/// The kind of machine that an experiment describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An adapter's DMA engine.
    Engine,
    /// Memory shared by a driver and a card.
    MemoryTypes,
    /// Two hosts and their network.
    Network,
    /// A host with a disk.
    Block,
    /// A host with a flash array.
    FlashArray,
    /// InfiniBand adapters.
    Infiniband,
}

impl<'a> Document<'a> {
    /// The document of an answer. `file` is the name of the experiment's file, and `made_by` the name and version of the program.
    pub fn new(answer: &'a Answer, file: &'a str, evidence: &'a FileEvidence, made_by: &'a str) -> Self {
        let empty = |kind| Self {
            schema: DOCUMENT_SCHEMA,
            made_by,
            file,
            kind,
            evidence,
            engine: None,
            memory_types: None,
            network: None,
            block: None,
            flash_array: None,
            infiniband: None,
        };
        match answer {
            Answer::Engine(answer) => Self { engine: Some(answer), ..empty(Kind::Engine) },
            Answer::MemoryTypes(answer) => Self { memory_types: Some(answer), ..empty(Kind::MemoryTypes) },
            Answer::Network(answer) => Self { network: Some(answer), ..empty(Kind::Network) },
            Answer::Block(answer) => Self { block: Some(answer), ..empty(Kind::Block) },
            Answer::FlashArray(answer) => Self { flash_array: Some(answer), ..empty(Kind::FlashArray) },
            Answer::Infiniband(answer) => Self { infiniband: Some(answer), ..empty(Kind::Infiniband) },
        }
    }
}
