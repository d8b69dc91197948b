//! Parameters that somebody wants to be others: what follows shows how much hangs on them.

use super::FamilyError;
use crate::Reproduction;
use std::collections::BTreeMap;
use toll::Evidence;

/// New values by name.
#[derive(Debug, Clone, Default)]
pub struct Changes(BTreeMap<String, f64>);

/// A change goes from this part of the given value to that multiple of it: beyond, it is another machine.
const FACTORS: (f64, f64) = (0.5, 2.0);

impl Changes {
    /// A file's parameters with the changes that are of them. `path` leads to the table that has them.
    pub(super) fn read(
        &self,
        file: &'static str,
        text: &str,
        path: &[&str],
    ) -> Result<toml::Table, FamilyError> {
        let mut all: toml::Table =
            toml::from_str(text).map_err(|source| FamilyError::File { file, source })?;
        let mut table = &mut all;
        for name in path {
            let Some(within) = table.get_mut(*name).and_then(toml::Value::as_table_mut) else {
                return Ok(all);
            };
            table = within;
        }
        for (name, value) in &self.0 {
            if let Some(given) = table.get_mut(name).and_then(toml::Value::as_table_mut) {
                change(name, given, *value)?;
            }
        }
        Ok(all)
    }

    /// Refuses changes of parameters that there are not.
    pub(super) fn check(&self, one: &Reproduction) -> Result<(), FamilyError> {
        let is_known = |name: &String| one.parameters.iter().any(|parameter| parameter.name == *name);
        match self.0.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                Err(FamilyError::UnknownParameter { family: one.family.clone(), name: name.clone() })
            }
        }
    }
}

fn change(name: &str, given: &mut toml::Table, value: f64) -> Result<(), FamilyError> {
    let known = given
        .get("value")
        .and_then(|value| value.as_float().or(value.as_integer().map(|value| value as f64)));
    let known = known.unwrap_or_default();
    let (low, high) = (known * FACTORS.0, known * FACTORS.1);
    if !(low..=high).contains(&value) {
        return Err(FamilyError::ChangedTooFar { name: name.to_owned(), value, low, high });
    }
    let evidence = Evidence::Assumed { why: format!("changed for this run, from {known}") };
    let evidence = toml::Value::try_from(evidence).unwrap_or(toml::Value::Boolean(false));
    given.insert("value".to_owned(), value.into());
    given.insert("evidence".to_owned(), evidence);
    Ok(())
}

impl FromIterator<(String, f64)> for Changes {
    fn from_iter<All: IntoIterator<Item = (String, f64)>>(all: All) -> Self {
        Self(all.into_iter().collect())
    }
}
