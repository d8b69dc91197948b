//! The fields of an experiment by their dotted names, in one order and one form however its file wrote them.

use super::key::{Key, VERSION};
use crate::experiment::Experiment;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// What a field is.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Any number.
    Float(f64),
    /// A word.
    Word(String),
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(out),
            Self::Float(number) => number.fmt(out),
            Self::Word(word) => word.fmt(out),
        }
    }
}

impl Value {
    /// The value, if it is a number or a text.
    fn of(value: &toml::Value) -> Option<Self> {
        match value {
            toml::Value::Integer(number) => Some(Self::Integer(*number)),
            toml::Value::Float(number) => Some(Self::Float(*number)),
            toml::Value::String(word) => Some(Self::Word(word.clone())),
            toml::Value::Boolean(_)
            | toml::Value::Datetime(_)
            | toml::Value::Array(_)
            | toml::Value::Table(_) => None,
        }
    }

    /// The text that keys are made of: of a float its bits, which no release of a formatter changes.
    pub(super) fn canonical(&self) -> String {
        match self {
            Self::Integer(number) => format!("i{number}"),
            Self::Float(number) => format!("f{:016x}", number.to_bits()),
            Self::Word(word) => format!("w{word}"),
        }
    }
}

/// All fields that a result follows from: an experiment without its words for people.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// All fields of an experiment that its result follows from.
    pub(super) fn of(experiment: &Experiment) -> Result<Self, toml::ser::Error> {
        let mut table = toml::Table::try_from(experiment)?;
        table.remove("what");
        let mut fields = BTreeMap::new();
        flatten("", &table, &mut fields);
        Ok(Self(fields))
    }

    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field)
    }

    pub(super) fn remove(&mut self, field: &str) {
        self.0.remove(field);
    }

    /// The hash that identifies these fields.
    pub(super) fn key(&self) -> Key {
        let mut hash = Sha256::new_with_prefix(VERSION);
        for (field, value) in &self.0 {
            hash.update(format!("\n{field}={}", value.canonical()));
        }
        Key::of_digest(&hash.finalize().into())
    }
}

/// Adds the fields of a table and of the tables in it, by dotted name.
fn flatten(above: &str, table: &toml::Table, fields: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let field = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            toml::Value::Table(table) => flatten(&field, table, fields),
            value => fields.extend(Value::of(value).map(|value| (field, value))),
        }
    }
}
