//! A table written as a text, to be read as a file is.
//!
//! Tables and texts with a way each would take each type's code twice.

use crate::{TomlProblem, TomlText};
use serde::de::DeserializeOwned;

/// A TOML table written as a text. Errors name the field instead of a line, since the user has never seen this text.
///
/// ```
/// use toll::WrittenTable;
/// let table: toml::Table = toml::from_str("[link]\nlanes = 0\n")?;
/// let read = WrittenTable::of(&table)?.read::<std::collections::BTreeMap<String, String>>();
/// assert_eq!(read.unwrap_err().to_string(), "invalid type: map, expected a string; in `link`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct WrittenTable(String);

/// What is wrong with a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}{}", in_field(field))]
pub struct FieldProblem {
    /// The dotted name of the field, or of the table that lacks one; empty for the outermost.
    pub field: String,
    /// What is wrong, in one line.
    pub problem: String,
}

/// The end of an error's text that says where it is.
fn in_field(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("; in `{field}`") }
}

impl WrittenTable {
    /// Writes a table.
    ///
    /// # Errors
    /// [`FieldProblem`] if TOML can't express a value.
    pub fn of(table: &toml::Table) -> Result<Self, FieldProblem> {
        let written = toml::to_string(table)
            .map_err(|error| FieldProblem { field: String::new(), problem: error.to_string() })?;
        // An empty first line, to which errors about the outermost table belong: no field begins there.
        Ok(Self(format!("\n{written}")))
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Deserialises the table.
    ///
    /// # Errors
    /// [`FieldProblem`] if fields are missing, unknown or of another type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, FieldProblem> {
        TomlText::new(&self.0, "").read().map_err(|problem| self.in_table(problem))
    }

    /// The same problem, with the field that begins at its line.
    pub fn in_table(&self, TomlProblem { line, problem, .. }: TomlProblem) -> FieldProblem {
        // Where no field begins, it is about the outermost table, whose name is empty.
        FieldProblem { field: TomlText::new(&self.0, "").field_at(line).unwrap_or_default(), problem }
    }
}
