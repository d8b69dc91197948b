//! Variables that a profile's values are taken from.

use super::Problem;
use std::collections::BTreeMap;

/// What stands for `$name` in a profile; uperf has it from its environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// What a profile's word says: itself, or the variable that it names.
    pub(super) fn resolve<'a>(&'a self, word: &'a str) -> Result<&'a str, Problem> {
        let Some(name) = word.strip_prefix('$') else { return Ok(word) };
        let name = name.to_ascii_lowercase();
        match self.0.get(&name) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(Problem::Unset(name)),
        }
    }
}

impl<Name: Into<String>, Value: Into<String>> FromIterator<(Name, Value)> for Variables {
    fn from_iter<All: IntoIterator<Item = (Name, Value)>>(all: All) -> Self {
        Self(all.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
