//! The folder of `iotoll fleet --out`, for many processes: one locks it and finds what is to be done, the others do it.

use crate::tables::{NotFound, inputs_at, not_found};
use crate::{MADE_BY, failure, interruptible, whole_file};
use columns::ShardLock;
use fleet::{Inputs, Inspected, Rows, TablesFolder};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// There is one shard: whoever distributes the inputs distributes all.
pub(crate) const SHARD: &str = "0-of-1";

/// A folder of tables, which is locked until it is closed.
#[pyclass(frozen)]
pub(crate) struct FleetFolder {
    path: PathBuf,
    lock: std::sync::Mutex<Option<ShardLock>>,
}

#[pymethods]
impl FleetFolder {
    /// Creates the folder if it is missing, locks it, and removes what a killed run has left.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let folder = tables_folder(&path);
        let lock = interruptible::run(py, move |_| folder.prepare())?;
        let lock = lock.map_err(|error| failure::of_folder(&error, &path))?;
        Ok(Self { path, lock: Some(lock).into() })
    }

    /// Paths of the inputs found at some paths that have no rows yet, how many have, and what could not be looked at. A report says which of them have no
    /// rows, as of the program's runs.
    fn unfinished(
        &self,
        py: Python<'_>,
        paths: Vec<PathBuf>,
    ) -> PyResult<(Vec<PathBuf>, usize, Vec<NotFound>)> {
        let folder = tables_folder(&self.path);
        let found = interruptible::run(py, move |_| {
            let Inputs { found, unlisted } = inputs_at(&paths);
            folder.keep_inputs(&found)?;
            let finished = folder.finished_inputs()?;
            let all = found.len();
            let left: Vec<PathBuf> =
                found.into_iter().filter(|input| !finished.has(input)).map(|input| input.path).collect();
            let before = all - left.len();
            Ok((left, before, not_found(unlisted)))
        })?;
        found.map_err(|error: fleet::TablesFolderError| failure::of_folder(&error, &self.path))
    }

    /// Unlocks it.
    fn close(&self) {
        self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}

/// Inspects the inputs at some paths, and adds their rows to a folder that `FleetFolder` has prepared. What can't be looked at has a row of `errors`. Returns
/// how many have a host, and how many an error.
#[pyfunction]
pub(crate) fn inspect_into(py: Python<'_>, folder: PathBuf, paths: Vec<PathBuf>) -> PyResult<(usize, usize)> {
    let tables = tables_folder(&folder);
    let added = interruptible::run(py, move |interrupt| {
        let (mut rows, mut errors) = (Rows::default(), 0);
        let Inputs { found, unlisted } = inputs_at(&paths);
        let read = found.into_iter().map(|input| {
            interrupt.end_thread_if_set();
            Inspected::read(input, MADE_BY)
        });
        for inspected in read.chain(unlisted.into_iter().map(Inspected::unlisted)) {
            errors += usize::from(inspected.error().is_some());
            rows.add(inspected);
        }
        let inspected = rows.inputs() - errors;
        if rows.inputs() > 0 {
            tables.add(&rows)?;
        }
        Ok((inspected, errors))
    })?;
    added.map_err(|error: fleet::TablesFolderError| failure::of_folder(&error, &folder))
}

fn tables_folder(path: &Path) -> TablesFolder {
    TablesFolder::new(path, SHARD, MADE_BY, whole_file::write)
}
