//! `iotoll.reproduce`: the document of published figures beside the models'.

use crate::{MADE_BY, failure, interruptible};
use model::{Changes, Reproductions};
use pyo3::prelude::*;

/// Names of all studies.
#[pyfunction]
pub(crate) fn studies() -> Vec<&'static str> {
    model::studies().collect()
}

/// Runs studies with changed parameters and so many seeds, and returns the document as JSON.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    names: Vec<String>,
    changes: Vec<(String, f64)>,
    seeds: u32,
) -> PyResult<String> {
    let document = interruptible::run(py, move |_| {
        let changes = Changes::new(changes)?;
        let document = Reproductions::run(&names, &changes, seeds, MADE_BY, &|| {})?;
        Ok(serde_json::to_string(&document))
    })?;
    document.map_err(|error| failure::of_study(&error))?.map_err(|error| failure::of_program(&error))
}
