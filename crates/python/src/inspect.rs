//! `iotoll.inspect`: the document of one host.

use crate::interruptible::{self, Interrupt};
use crate::{MADE_BY, failure};
use fleet::InputError;
use host::Tree;
use host::tree::{Evidence, path_text};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::rc::Rc;

/// What a host is read from.
#[derive(FromPyObject)]
pub(crate) enum Source {
    /// An archive or a text.
    Bytes(Vec<u8>),
    /// An archive, a text's file, or a folder.
    Path(PathBuf),
}

/// Inspects a host, this one if no source is given, and returns the document as JSON. Errors and citations call bytes `name`.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, source: Option<Source>, name: String) -> PyResult<String> {
    let shown = match &source {
        None => "/".to_owned(),
        Some(Source::Bytes(_)) => name,
        Some(Source::Path(path)) => path_text(path),
    };
    let file = shown.clone();
    let document = interruptible::run(py, move |interrupt| {
        let document = fleet::inspect(&open(source, &shown, interrupt)?, &shown, MADE_BY)?;
        Ok(serde_json::to_string(&document))
    })?;
    let document = document.map_err(|error: InputError| failure::of_input(&error, &file))?;
    document.map_err(|error| failure::of_program(&error))
}

fn open(source: Option<Source>, shown: &str, interrupt: &Interrupt) -> Result<Tree, InputError> {
    let interrupt = interrupt.clone();
    let mut evidence = Evidence::new(Rc::new(move |_| interrupt.end_thread_if_set()));
    match source {
        None => return Ok(Tree::live()),
        Some(Source::Bytes(bytes)) => evidence.add_reader(bytes.as_slice(), shown)?,
        Some(Source::Path(path)) => evidence.add_path(&path)?,
    }
    Ok(evidence.into_tree()?)
}
