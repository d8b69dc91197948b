//! Families of published figures, and what reproduces them.

mod about;
mod changes;
mod dma_contention;
mod iotlb;
mod parameters;
mod power7;
mod power_window;

pub use changes::Changes;

use crate::Reproduction;
use crate::network::{NetworkError, NotModelled};
use crate::partition::PartitionError;
use crate::uperf::ProfileError;

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
    Network(#[from] NetworkError),
    /// A profile is not what it should be.
    #[error("experiments/uperf")]
    Profile(#[from] ProfileError),
    /// A profile asks for what is not modelled.
    #[error("experiments/uperf")]
    NotModelled(#[from] NotModelled),
    /// There is no such partition.
    #[error("the partition")]
    Partition(#[from] PartitionError),
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

/// Runs the models of a family with other parameters.
///
/// # Errors
/// [`FamilyError`], also where it has no such parameter.
pub fn reproduce_with(name: &str, changes: &Changes) -> Result<Reproduction, FamilyError> {
    let family = FAMILIES.iter().find(|family| family.name == name);
    let family = family.ok_or_else(|| FamilyError::Unknown { name: name.to_owned() })?;
    let one = (family.reproduce)(changes)?;
    changes.check(&one)?;
    Ok(one)
}
