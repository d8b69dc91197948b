//! Parameters of a family by name, each with its evidence.

use super::{Changes, FamilyError};
use crate::{Given, Parameter};
use std::collections::BTreeMap;

/// What a file gives.
#[derive(Debug)]
pub(super) struct Parameters {
    file: &'static str,
    given: BTreeMap<String, Given>,
}

impl Parameters {
    /// Reads a file that has nothing but parameters: a table for each.
    pub(super) fn read(file: &'static str, text: &str, changes: &Changes) -> Result<Self, FamilyError> {
        let table = changes.read(file, text, &[])?;
        let given = table.try_into().map_err(|source| FamilyError::File { file, source })?;
        Ok(Self { file, given })
    }

    /// A parameter's value.
    pub(super) fn get(&self, name: &'static str) -> Result<f64, FamilyError> {
        let given = self.given.get(name).ok_or(FamilyError::Missing { file: self.file, name })?;
        Ok(given.value)
    }

    /// All of them, for people.
    pub(super) fn listed(&self) -> Vec<Parameter> {
        let listed = self.given.iter().map(|(name, given)| Parameter {
            name: name.clone(),
            value: given.value,
            evidence: given.evidence.clone(),
        });
        listed.collect()
    }
}
