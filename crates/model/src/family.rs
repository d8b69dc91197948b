//! Families of published figures, and what reproduces them.

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

use crate::host::HostError;
use crate::infiniband::mpi::ProgramError;
use crate::network::NotModelled;
use crate::partition::PartitionError;
use crate::storage::StorageError;
use crate::uperf::ProfileError;
use crate::{Reproduction, Role};

/// Why a family can't be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum FamilyError {
    /// There is no such family.
    #[error("there is no family {name:?}; there are {}", names())]
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
    /// A family has no parameter of this name.
    #[error("the family {family} has no parameter {name:?}; `iotoll reproduce {family}` lists them")]
    UnknownParameter {
        /// The family.
        family: String,
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
    Storage(#[from] StorageError),
    /// A benchmark has no end.
    #[error("a benchmark")]
    Program(#[from] ProgramError),
    /// A simulation did what it must not.
    #[error("a simulation of {family}")]
    Simulation {
        /// The family.
        family: &'static str,
        /// What it did.
        source: des::Misuse,
    },
}

/// A family.
struct Family {
    name: &'static str,
    reproduce: fn(&Changes) -> Result<Reproduction, FamilyError>,
}

const FAMILIES: &[Family] = &[
    Family { name: power_window::NAME, reproduce: power_window::reproduce },
    Family { name: dma_contention::NAME, reproduce: dma_contention::reproduce },
    Family { name: iotlb::NAME, reproduce: iotlb::reproduce },
    Family { name: protection_mode::NAME, reproduce: protection_mode::reproduce },
    Family { name: premapped::NAME, reproduce: premapped::reproduce },
    Family { name: memmap::NAME, reproduce: memmap::reproduce },
    Family { name: memfree_hca::NAME, reproduce: memfree_hca::reproduce },
    Family { name: capi_flash::NAME, reproduce: capi_flash::reproduce },
];

/// The names of all families.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|family| family.name)
}

fn names() -> String {
    families().collect::<Vec<_>>().join(", ")
}

/// Runs the models of a family.
///
/// # Errors
/// [`FamilyError`]
pub fn reproduce(name: &str) -> Result<Reproduction, FamilyError> {
    reproduce_with(name, &Changes::default())
}

/// Runs the models of a family with other parameters. What a given one was chosen by is then met no more: all figures are predicted.
///
/// # Errors
/// [`FamilyError`], also where it has no such parameter.
pub fn reproduce_with(name: &str, changes: &Changes) -> Result<Reproduction, FamilyError> {
    let family = FAMILIES.iter().find(|family| family.name == name);
    let family = family.ok_or_else(|| FamilyError::Unknown { name: name.to_owned() })?;
    let mut one = (family.reproduce)(changes)?;
    changes.check(&one)?;
    if !changes.is_empty() {
        one.curves
            .iter_mut()
            .flat_map(|curve| &mut curve.points)
            .for_each(|point| point.role = Role::Predicted);
    }
    Ok(one)
}
