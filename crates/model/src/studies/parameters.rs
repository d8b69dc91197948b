//! Parameters of a study by name, each with its evidence.

use super::{Changes, StudyError};
use crate::{Given, Parameter};
use des::Span;
use std::collections::BTreeMap;

/// The parameters of one study file, by name.
#[derive(Debug)]
pub(super) struct Parameters {
    file: &'static str,
    given: BTreeMap<String, Given>,
}

impl Parameters {
    /// Parses a file that contains only parameters, one TOML table each, and applies `changes`.
    pub(super) fn read(file: &'static str, text: &str, changes: &Changes) -> Result<Self, StudyError> {
        Ok(Self { file, given: changes.read(file, text, &[])? })
    }

    /// Wraps the parameter table of a file that also has other tables.
    pub(super) fn from_table(file: &'static str, given: BTreeMap<String, Given>) -> Self {
        Self { file, given }
    }

    /// Reads a parameter given in microseconds.
    pub(super) fn us(&self, name: &'static str) -> Result<Span, StudyError> {
        self.get(name).map(|us| Span::from_ps_f64(us * 1e6))
    }

    /// Reads a parameter given in nanoseconds.
    pub(super) fn ns(&self, name: &'static str) -> Result<Span, StudyError> {
        self.get(name).map(Span::from_ns_f64)
    }

    /// Reads a parameter given in KiB, as bytes.
    pub(super) fn kib(&self, name: &'static str) -> Result<u64, StudyError> {
        self.get(name).map(|kib| (kib * 1024.0) as u64)
    }

    /// Returns a parameter's value in the unit that its name ends with.
    pub(super) fn get(&self, name: &'static str) -> Result<f64, StudyError> {
        let given = self.given.get(name).ok_or(StudyError::Missing { file: self.file, name })?;
        Ok(given.value)
    }

    /// Returns the value of a parameter that must be an integer.
    pub(super) fn count<N: TryFrom<u64>>(&self, name: &'static str) -> Result<N, StudyError> {
        to_integer(name, self.get(name)?)
    }

    /// Sets a parameter without the range check that users' changes undergo.
    #[cfg(test)]
    pub(super) fn set(&mut self, name: &str, value: f64) {
        self.given.get_mut(name).unwrap().value = value;
    }

    /// Lists all parameters with their evidence, for the report.
    pub(super) fn parameter_list(&self) -> Vec<Parameter> {
        let listed = self.given.iter().map(|(name, given)| Parameter {
            name: name.clone(),
            value: given.value,
            evidence: given.evidence.clone(),
        });
        listed.collect()
    }
}

/// Converts a value to an integer; fails if it has a fraction or is out of range.
pub(super) fn to_integer<N: TryFrom<u64>>(name: &'static str, value: f64) -> Result<N, StudyError> {
    let error = StudyError::NotWhole { name, value };
    if value.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&value) {
        return Err(error);
    }
    N::try_from(value as u64).map_err(|_| error)
}
