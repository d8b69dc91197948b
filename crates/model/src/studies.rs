//! Studies: published figures, and the models that reproduce them.

mod about;
mod capi_flash;
mod changes;
mod dma_contention;
mod iotlb;
mod memfree_hca;
mod memmap;
mod model_value;
mod parameters;
mod power7;
mod power_window;
mod premapped;
mod protection_mode;
mod replication;
mod shared_value;

pub use changes::Changes;
pub use memmap::{AreaExpectation, expect_of_area};

use crate::block::BlockError;
use crate::flash_array::FlashArrayError;
use crate::infiniband::mpi::ProgramError;
use crate::network::{NetworkError, NotModelled};
use crate::partition::PartitionError;
use crate::replications::Replications;
use crate::uperf::ProfileError;
use crate::{Parameter, Reproduction};
use replication::Replication;
use toll::{FieldProblem, TomlProblem};

/// Why a study can't be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The name is not of a study.
    #[error("there is no study {name:?}; expected one of {}", study_names())]
    Unknown {
        /// The name given.
        name: String,
    },
    /// A file of experiments/ is invalid.
    #[error(transparent)]
    File(#[from] TomlProblem),
    /// A table of a file in experiments/ is invalid, with the changes for this run.
    #[error("experiments/{file}")]
    Table {
        /// The file.
        file: &'static str,
        /// The error.
        source: FieldProblem,
    },
    /// The study has no parameter of this name.
    #[error("the study {study} has no parameter {name:?}; `iotoll reproduce {study}` lists them")]
    UnknownParameter {
        /// The study.
        study: String,
        /// The name given.
        name: String,
    },
    /// The new value differs too much from the given one.
    #[error("{name} is {value}; expected {low} to {high}, half to twice the given value")]
    ChangedTooFar {
        /// The parameter.
        name: String,
        /// The new value.
        value: f64,
        /// Least allowed value.
        low: f64,
        /// Largest allowed value.
        high: f64,
    },
    /// A parameter given as 0 can't be scaled.
    #[error(
        "{name} is given as 0 and can't be changed, since changes are limited to half to twice the given value"
    )]
    GivenAsZero {
        /// The parameter.
        name: String,
    },
    /// The parameter is set twice.
    #[error("{name} is set twice; expected one value")]
    ChangedTwice {
        /// The parameter.
        name: String,
    },
    /// A count must be a whole number.
    #[error("{name} is {value}; expected a whole number")]
    NotWhole {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A parameter takes its value from one that does not exist.
    #[error("experiments/{file}: {name} takes its value from a parameter that no file has")]
    SharedValue {
        /// The file.
        file: &'static str,
        /// The parameter.
        name: String,
    },
    /// A file lacks a parameter.
    #[error("experiments/{file}: no parameter {name:?}")]
    Missing {
        /// The file.
        file: &'static str,
        /// The parameter.
        name: &'static str,
    },
    /// Two hosts can't be simulated.
    #[error("can't simulate the two hosts")]
    Network(#[from] NetworkError),
    /// A host with a disk can't be simulated.
    #[error("can't simulate the host and its disk")]
    Block(#[from] BlockError),
    /// A profile of uperf is invalid.
    #[error("experiments/uperf")]
    Profile(#[from] ProfileError),
    /// A profile of uperf uses something that is not modelled.
    #[error("experiments/uperf")]
    NotModelled(#[from] NotModelled),
    /// A POWER partition can't be simulated.
    #[error("can't simulate the partition")]
    Partition(#[from] PartitionError),
    /// A host with a flash array can't be simulated.
    #[error("can't simulate the host and its flash array")]
    FlashArray(#[from] FlashArrayError),
    /// An MPI program does not end.
    #[error("can't simulate a benchmark")]
    Program(#[from] ProgramError),
    /// A simulation violated a rule of `des`.
    #[error("the simulation of {study} failed")]
    Simulation {
        /// The study.
        study: &'static str,
        /// The violation.
        source: des::Misuse,
    },
}

/// Seeds of a study, unless others are given.
pub const STUDY_SEEDS: u32 = 4;

/// A study: its name on the command line, and the function that runs it.
struct Study {
    name: &'static str,
    /// Computes its figures once.
    run: fn(&Replication<'_>) -> Result<Reproduction, StudyError>,
    /// Whether another seed gives other figures.
    is_random: bool,
    /// Its parameters, without a run.
    parameters: fn(&Changes) -> Result<Vec<Parameter>, StudyError>,
}

const STUDIES: &[Study] = &[
    Study {
        name: power_window::NAME,
        run: power_window::run,
        is_random: true,
        parameters: power_window::parameters,
    },
    Study {
        name: dma_contention::NAME,
        run: dma_contention::run,
        is_random: true,
        parameters: dma_contention::parameters,
    },
    Study { name: iotlb::NAME, run: iotlb::run, is_random: true, parameters: iotlb::parameters },
    Study {
        name: protection_mode::NAME,
        run: protection_mode::run,
        is_random: true,
        parameters: protection_mode::parameters,
    },
    Study { name: premapped::NAME, run: premapped::run, is_random: true, parameters: premapped::parameters },
    Study { name: memmap::NAME, run: memmap::run, is_random: false, parameters: memmap::parameters },
    Study {
        name: memfree_hca::NAME,
        run: memfree_hca::run,
        is_random: true,
        parameters: memfree_hca::parameters,
    },
    Study {
        name: capi_flash::NAME,
        run: capi_flash::run,
        is_random: true,
        parameters: capi_flash::parameters,
    },
];

/// Names of all studies.
pub fn studies() -> impl Iterator<Item = &'static str> {
    STUDIES.iter().map(|study| study.name)
}

/// The parameters of a study, as they are given.
pub(crate) fn parameters_of(name: &str) -> Result<Vec<Parameter>, StudyError> {
    (find(name)?.parameters)(&Changes::default())
}

/// The study of this name.
fn find(name: &str) -> Result<&'static Study, StudyError> {
    let study = STUDIES.iter().find(|study| study.name == name);
    study.ok_or_else(|| StudyError::Unknown { name: name.to_owned() })
}

/// The names of all studies, separated by commas.
fn study_names() -> String {
    studies().collect::<Vec<_>>().join(", ")
}

/// Reproduces a study: its figures are means over runs with several seeds, with 95 % intervals.
///
/// # Errors
/// [`StudyError`]
pub fn reproduce(name: &str) -> Result<Reproduction, StudyError> {
    reproduce_with(name, &Changes::default(), STUDY_SEEDS)
}

/// Reproduces a study with changed parameters, as the mean over `seeds` runs; with a single one, intervals have no width. A figure
/// that changes with the parameters is neither calibrated nor a prediction of the study: its kind is
/// [`Changed`](crate::FigureKind::Changed). To tell which do, the study runs once more as it is given.
///
/// # Errors
/// [`StudyError`]; also for an unknown parameter.
pub fn reproduce_with(name: &str, changes: &Changes, seeds: u32) -> Result<Reproduction, StudyError> {
    let study = find(name)?;
    let mut one = study.reproduce(changes, seeds)?;
    changes.check_names(&one)?;
    if !changes.is_empty() {
        one.mark_changes(&study.reproduce(&Changes::default(), seeds)?);
    }
    Ok(one)
}

impl Study {
    /// Runs it once for each seed.
    fn reproduce(&self, changes: &Changes, seeds: u32) -> Result<Reproduction, StudyError> {
        let run = |seed| (self.run)(&Replication { changes, seed });
        let runs = match self.is_random {
            true => Replications::run(Replication::FIRST_SEED, seeds, run)?,
            false => Replications::run_once(|| run(Replication::FIRST_SEED))?,
        };
        Ok(Reproduction::mean(&runs))
    }
}
