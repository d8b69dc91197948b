//! Parameters of a study by name, each with its evidence.

use super::{Changes, StudyError};
use crate::{Given, Parameter};
use des::Span;
use std::collections::BTreeMap;

/// What a file gives.
#[derive(Debug)]
pub(super) struct Parameters {
    file: &'static str,
    given: BTreeMap<String, Given>,
}

impl Parameters {
    /// Reads a file that has nothing but parameters: a table for each.
    pub(super) fn read(file: &'static str, text: &str, changes: &Changes) -> Result<Self, StudyError> {
        Ok(Self { file, given: changes.read(file, text, &[])? })
    }

    /// Those of a file that has more than parameters.
    pub(super) fn of(file: &'static str, given: BTreeMap<String, Given>) -> Self {
        Self { file, given }
    }

    /// A parameter in microseconds.
    pub(super) fn us(&self, name: &'static str) -> Result<Span, StudyError> {
        self.get(name).map(|us| Span::from_ps_f64(us * 1e6))
    }

    /// A parameter in nanoseconds.
    pub(super) fn ns(&self, name: &'static str) -> Result<Span, StudyError> {
        self.get(name).map(Span::from_ns_f64)
    }

    /// Bytes of a parameter in KiB.
    pub(super) fn kib(&self, name: &'static str) -> Result<u64, StudyError> {
        self.get(name).map(|kib| (kib * 1024.0) as u64)
    }

    /// A parameter's value.
    pub(super) fn get(&self, name: &'static str) -> Result<f64, StudyError> {
        let given = self.given.get(name).ok_or(StudyError::Missing { file: self.file, name })?;
        Ok(given.value)
    }

    /// The value of one that counts something.
    pub(super) fn count<N: TryFrom<u64>>(&self, name: &'static str) -> Result<N, StudyError> {
        whole(name, self.get(name)?)
    }

    /// Changes one, beyond what users may.
    #[cfg(test)]
    pub(super) fn set(&mut self, name: &str, value: f64) {
        self.given.get_mut(name).unwrap().value = value;
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

/// A value of what is counted.
pub(super) fn whole<N: TryFrom<u64>>(name: &'static str, value: f64) -> Result<N, StudyError> {
    let error = StudyError::NotWhole { name, value };
    if value.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&value) {
        return Err(error);
    }
    N::try_from(value as u64).map_err(|_| error)
}
