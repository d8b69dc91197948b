//! Parameter values that the user overrides for a run, to see how sensitive the results are to them.

use super::{StudyError, shared_value};
use crate::Reproduction;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use toll::{Evidence, TomlText, WrittenTable};

/// New parameter values, by parameter name.
#[derive(Debug, Clone, Default)]
pub struct Changes(BTreeMap<String, f64>);

/// A changed value must lie between these multiples of the given one. Beyond them it would describe another machine.
const FACTORS: (f64, f64) = (0.5, 2.0);

impl Changes {
    /// Collects pairs of a parameter's name and its new value.
    ///
    /// # Errors
    /// [`StudyError::ChangedTwice`]
    pub fn new(all: impl IntoIterator<Item = (String, f64)>) -> Result<Self, StudyError> {
        let mut changes = BTreeMap::new();
        for (name, value) in all {
            if changes.insert(name.clone(), value).is_some() {
                return Err(StudyError::ChangedTwice { name });
            }
        }
        Ok(Self(changes))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses a study file after resolving shared values and applying the changes to its parameters. `path` names the nested
    /// table that holds them.
    pub(super) fn read<File: DeserializeOwned>(
        &self,
        file: &'static str,
        text: &str,
        path: &[&str],
    ) -> Result<File, StudyError> {
        let mut all: toml::Table = TomlText::new(text, file).read()?;
        let within = |table, name: &&str| toml::Table::get_mut(table, *name)?.as_table_mut();
        if let Some(table) = path.iter().try_fold(&mut all, within) {
            shared_value::resolve(file, table)?;
            for (name, value) in &self.0 {
                if let Some(given) = table.get_mut(name).and_then(toml::Value::as_table_mut) {
                    apply_change(name, given, *value)?;
                }
            }
        }
        read_table(file, &all)
    }

    /// Fails if a change names a parameter that the study does not have.
    pub(super) fn check_names(&self, one: &Reproduction) -> Result<(), StudyError> {
        let is_known = |name: &String| one.parameters.iter().any(|parameter| parameter.name == *name);
        match self.0.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(StudyError::UnknownParameter { study: one.study.clone(), name: name.clone() }),
        }
    }
}

/// Deserialises a table of a study's file.
pub(super) fn read_table<T: DeserializeOwned>(
    file: &'static str,
    table: &toml::Table,
) -> Result<T, StudyError> {
    let read = WrittenTable::of(table).and_then(|table| table.read());
    read.map_err(|source| StudyError::Table { file, source })
}

/// Replaces the value in a parameter's TOML table if it is within [`FACTORS`], and records the change as its evidence.
fn apply_change(name: &str, given: &mut toml::Table, value: f64) -> Result<(), StudyError> {
    let known = given
        .get("value")
        .and_then(|value| value.as_float().or(value.as_integer().map(|value| value as f64)));
    let known = known.unwrap_or_default();
    if known == 0.0 {
        return Err(StudyError::GivenAsZero { name: name.to_owned() });
    }
    // The given value is no change, and keeps its evidence.
    if value.to_bits() == known.to_bits() {
        return Ok(());
    }
    let (low, high) = (known * FACTORS.0, known * FACTORS.1);
    if !(low..=high).contains(&value) {
        return Err(StudyError::ChangedTooFar { name: name.to_owned(), value, low, high });
    }
    let evidence = Evidence::Assumed { why: format!("changed for this run, from {known}") };
    let evidence = toml::Value::try_from(evidence).unwrap_or(toml::Value::Boolean(false));
    given.insert("value".to_owned(), value.into());
    given.insert("evidence".to_owned(), evidence);
    Ok(())
}
