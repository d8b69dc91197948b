//! How much of a user's file is evidence: which of its values are those of the example that it was made from, and where these come
//! from.
//!
//! A user's file has plain numbers. A number that the shipped example has in the same place keeps the example's evidence, which
//! `experiments/origins.toml` has; any other was given by the user, and rests on nothing that is known here. A price that was taken
//! from a list has the list's evidence.

use crate::description::Description;
use crate::evidence_share::EvidenceShare;
use crate::studies::{StudyError, parameters_of};
use crate::taken_price::TakenPrice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toll::{Evidence, TomlText};
use toml::{Table, Value};

/// Where the values of a file come from, and those of the study whose model it runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileEvidence {
    /// The file's values that describe a machine, with prices of a list in place of some.
    pub values: EvidenceShare,
    /// The prices that were taken from a list.
    pub prices: Vec<TakenPrice>,
    /// The study that compares this model with published figures; `None` if there is none.
    pub study: Option<String>,
    /// Its parameters.
    pub study_parameters: Option<EvidenceShare>,
}

const FILE: &str = "origins.toml";
const TEXT: &str = include_str!("../experiments/origins.toml");

/// Where the values of one example come from.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Origins {
    study: Option<String>,
    /// Keys and tables that are no parameters of a machine.
    load: Vec<String>,
    /// Tables that have the keys of another.
    #[serde(default)]
    copies: BTreeMap<String, String>,
    values: BTreeMap<String, Origin>,
}

/// Where a value comes from.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Origin {
    /// It is a parameter of the study.
    Parameter(String),
    /// It was made from a parameter of the study.
    Like {
        like: String,
    },
    Own(Evidence),
}

/// An example: its name in the file of origins, and its text.
struct Example {
    name: &'static str,
    text: &'static str,
}

impl Example {
    fn of(description: &Description) -> Self {
        let (name, text) = match description {
            Description::Engine(_) => ("engine", include_str!("../experiments/engine.toml")),
            Description::Hosts(_) => ("two-hosts", include_str!("../experiments/two-hosts.toml")),
            Description::Block(_) => ("nvme", include_str!("../experiments/nvme.toml")),
            Description::FlashArray(_) => ("flash-array", include_str!("../experiments/flash-array.toml")),
            Description::Memory(_) => ("memory-types", include_str!("../experiments/memory-types.toml")),
            Description::Adapters(_) => ("infiniband", include_str!("../experiments/infiniband.toml")),
        };
        Self { name, text }
    }
}

impl FileEvidence {
    /// The evidence of the file that `description` was read from.
    ///
    /// # Errors
    /// [`StudyError`] if a file of `experiments/` is invalid.
    pub fn of(description: &Description, text: &str) -> Result<Self, StudyError> {
        Self::with_prices(description, text, Vec::new())
    }

    /// The evidence of the file that `description` was read from, some of whose values are prices of a list.
    ///
    /// # Errors
    /// [`StudyError`] if a file of `experiments/` is invalid.
    pub fn with_prices(
        description: &Description,
        text: &str,
        prices: Vec<TakenPrice>,
    ) -> Result<Self, StudyError> {
        let example = Example::of(description);
        let mut all: BTreeMap<String, Origins> = TomlText::new(TEXT, FILE).read()?;
        let missing = || StudyError::Missing { file: FILE, name: example.name };
        let origins = all.remove(example.name).ok_or_else(missing)?;
        let parameters = match &origins.study {
            Some(study) => parameters_of(study)?,
            None => Vec::new(),
        };
        let evidence: BTreeMap<&str, &Evidence> =
            parameters.iter().map(|one| (one.name.as_str(), &one.evidence)).collect();
        let shipped = origins.leaves(&TomlText::new(example.text, example.name).read()?);
        let given = origins.leaves(&TomlText::new(text, "the file").read()?);
        let mut values = EvidenceShare::default();
        for (path, value) in &given {
            if let Some(price) = prices.iter().find(|price| price.key == *path) {
                values.add(Some(&price.evidence));
                continue;
            }
            let path = origins.original(path);
            let is_shipped = shipped.get(&path).is_some_and(|shipped| is_same(shipped, value));
            let origin = origins.values.get(&path).filter(|_| is_shipped);
            values.add(origin.and_then(|origin| origin.evidence(&evidence)));
        }
        let study_parameters = origins.study.as_ref().map(|_| EvidenceShare::of_parameters(&parameters));
        Ok(Self { values, prices, study: origins.study, study_parameters })
    }
}

impl Origins {
    /// The values of a file that describe a machine, by their dotted names.
    fn leaves(&self, file: &Table) -> BTreeMap<String, Value> {
        let mut leaves = BTreeMap::new();
        self.add_leaves(file, "", &mut leaves);
        leaves
    }

    fn add_leaves(&self, table: &Table, prefix: &str, leaves: &mut BTreeMap<String, Value>) {
        for (key, value) in table {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            if self.load.contains(&path) {
                continue;
            }
            let counts_as_one = self.values.contains_key(&self.original(&path));
            match value {
                Value::Table(inner) if !counts_as_one => self.add_leaves(inner, &path, leaves),
                Value::Integer(_) | Value::Float(_) | Value::Array(_) | Value::Table(_) => {
                    leaves.insert(path, value.clone());
                }
                // Words and switches choose a mechanism; they are no quantities.
                Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => {}
            }
        }
    }

    /// The name of a value in the table that its own is a copy of.
    fn original(&self, path: &str) -> String {
        let copied = self.copies.iter().find_map(|(copy, of)| {
            let rest = path.strip_prefix(copy.as_str())?.strip_prefix('.')?;
            Some(format!("{of}.{rest}"))
        });
        copied.unwrap_or_else(|| path.to_owned())
    }
}

impl Origin {
    fn evidence<'e>(&'e self, parameters: &BTreeMap<&str, &'e Evidence>) -> Option<&'e Evidence> {
        match self {
            Self::Parameter(name) | Self::Like { like: name } => parameters.get(name.as_str()).copied(),
            Self::Own(evidence) => Some(evidence),
        }
    }
}

/// Whether two values of TOML are the same, also where one is written as an integer and the other as a float.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Table(a), Value::Table(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        },
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|value| value as f64))
}

#[cfg(test)]
mod tests;
