//! Studies of published figures, and what reproduces them.

mod about;
mod capi_flash;
mod changes;
mod dma_contention;
mod iotlb;
mod memfree_hca;
mod memmap;
mod parameters;
mod power7;
mod power_window;
mod premapped;
mod protection_mode;

pub use changes::Changes;
pub use memmap::{AreaExpectation, expect_of_area};

use crate::flash_array::FlashArrayError;
use crate::host::HostError;
use crate::infiniband::mpi::ProgramError;
use crate::network::NotModelled;
use crate::partition::PartitionError;
use crate::uperf::ProfileError;
use crate::{Reproduction, Role};

/// Why a study can't be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// There is no such study.
    #[error("there is no study {name:?}; there are {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// An experiment's file is not what it should be.
    #[error("experiments/{file}")]
    File {
        /// The file.
        file: &'static str,
        /// Where and what.
        source: toml::de::Error,
    },
    /// A study has no parameter of this name.
    #[error("the study {study} has no parameter {name:?}; `iotoll reproduce {study}` lists them")]
    UnknownParameter {
        /// The study.
        study: String,
        /// What was asked for.
        name: String,
    },
    /// A parameter would be another machine's.
    #[error("{name} is {value}; expected {low} to {high}, half to twice of what is given")]
    ChangedTooFar {
        /// The parameter.
        name: String,
        /// What was asked for.
        value: f64,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// A parameter that is zero has no half and no double.
    #[error("{name} is given as 0, of which there is no half and no double; expected another parameter")]
    GivenAsZero {
        /// The parameter.
        name: String,
    },
    /// A parameter has two new values.
    #[error("{name} is set twice; expected one value")]
    ChangedTwice {
        /// The parameter.
        name: String,
    },
    /// There are no parts of what is counted.
    #[error("{name} is {value}; expected a whole number")]
    NotWhole {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A parameter is not given.
    #[error("experiments/{file}: no parameter {name:?}")]
    Missing {
        /// The file.
        file: &'static str,
        /// The parameter.
        name: &'static str,
    },
    /// The network can't be modelled so.
    #[error("the hosts")]
    Network(#[from] HostError),
    /// A profile is not what it should be.
    #[error("experiments/uperf")]
    Profile(#[from] ProfileError),
    /// A profile asks for what is not modelled.
    #[error("experiments/uperf")]
    NotModelled(#[from] NotModelled),
    /// There is no such partition.
    #[error("the partition")]
    Partition(#[from] PartitionError),
    /// A host with an array can't be modelled so.
    #[error("the host and its array")]
    FlashArray(#[from] FlashArrayError),
    /// A benchmark has no end.
    #[error("a benchmark")]
    Program(#[from] ProgramError),
    /// A simulation did what it must not.
    #[error("a simulation of {study}")]
    Simulation {
        /// The study.
        study: &'static str,
        /// What it did.
        source: des::Misuse,
    },
}

/// A study.
struct Study {
    name: &'static str,
    reproduce: fn(&Changes) -> Result<Reproduction, StudyError>,
}

const FAMILIES: &[Study] = &[
    Study { name: power_window::NAME, reproduce: power_window::reproduce },
    Study { name: dma_contention::NAME, reproduce: dma_contention::reproduce },
    Study { name: iotlb::NAME, reproduce: iotlb::reproduce },
    Study { name: protection_mode::NAME, reproduce: protection_mode::reproduce },
    Study { name: premapped::NAME, reproduce: premapped::reproduce },
    Study { name: memmap::NAME, reproduce: memmap::reproduce },
    Study { name: memfree_hca::NAME, reproduce: memfree_hca::reproduce },
    Study { name: capi_flash::NAME, reproduce: capi_flash::reproduce },
];

/// The names of all studies.
pub fn studies() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|study| study.name)
}

fn names() -> String {
    studies().collect::<Vec<_>>().join(", ")
}

/// Runs the models of a study.
///
/// # Errors
/// [`StudyError`]
pub fn reproduce(name: &str) -> Result<Reproduction, StudyError> {
    reproduce_with(name, &Changes::default())
}

/// Runs the models of a study with other parameters. What a given one was chosen by is then met no more: all figures are predicted.
///
/// # Errors
/// [`StudyError`], also where it has no such parameter.
pub fn reproduce_with(name: &str, changes: &Changes) -> Result<Reproduction, StudyError> {
    let study = FAMILIES.iter().find(|study| study.name == name);
    let study = study.ok_or_else(|| StudyError::Unknown { name: name.to_owned() })?;
    let mut one = (study.reproduce)(changes)?;
    changes.check(&one)?;
    if !changes.is_empty() {
        one.curves
            .iter_mut()
            .flat_map(|curve| &mut curve.points)
            .for_each(|point| point.role = Role::Predicted);
    }
    Ok(one)
}
