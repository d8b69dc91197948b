//! `iotoll.model.run`: the document of a simulated machine.

use crate::{MADE_BY, failure, interruptible};
use model::{Description, Document, FileEvidence};
use pyo3::prelude::*;
use toll::TomlText;

/// Simulates the machine that a text describes, with other values of some fields, a JSON list of names and values. Returns the document as JSON.
/// Errors call the text `file`.
#[pyfunction]
pub(crate) fn run_model(py: Python<'_>, text: String, file: String, changes: String) -> PyResult<String> {
    let changes = serde_json::from_str(&changes);
    let changes: Vec<(String, toml::Value)> = changes.map_err(|error| failure::of_program(&error))?;
    let (description, text) = describe(text, &file, changes)?;
    let evidence = FileEvidence::of(&description, &text).map_err(|error| failure::of_study(&error))?;
    let answer = interruptible::run(py, move |_| description.run())?;
    let answer = answer.map_err(|error| failure::of_run(&error, &file))?;
    serde_json::to_string(&Document::new(&answer, &file, &evidence, MADE_BY))
        .map_err(|error| failure::of_program(&error))
}

/// The machine that a text describes with these changes, and its text.
fn describe(
    text: String,
    file: &str,
    changes: Vec<(String, toml::Value)>,
) -> PyResult<(Description, String)> {
    let toml = TomlText::new(&text, file);
    let description = Description::read(&text, file).map_err(|error| failure::of_experiment(&error))?;
    if changes.is_empty() {
        return Ok((description, text));
    }
    let table = toml.read::<toml::Table>();
    let mut table = table.map_err(|error| failure::of_experiment(&error.into()))?;
    for (field, value) in changes {
        if !sweep::set_field(&mut table, &field, value) {
            return Err(failure::of_field(&field, file));
        }
    }
    let changed = toml::to_string(&table).map_err(|error| failure::of_program(&error))?;
    let description = Description::from_table(&table);
    let line = |field: &str| toml.line_of(field);
    Ok((description.map_err(|error| failure::of_changes(&error, file, line))?, changed))
}
