//! Families of published figures, and what reproduces them.

mod dma_contention;
mod iotlb;

use crate::Reproduction;

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
    reproduce: fn() -> Result<Reproduction, FamilyError>,
}

const FAMILIES: &[Family] = &[
    Family { name: iotlb::NAME, reproduce: iotlb::reproduce },
    Family { name: dma_contention::NAME, reproduce: dma_contention::reproduce },
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
    let family = FAMILIES.iter().find(|family| family.name == name);
    let family = family.ok_or_else(|| FamilyError::Unknown { name: name.to_owned() })?;
    (family.reproduce)()
}
