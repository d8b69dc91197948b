//! `iotoll.tables`: the tables of many hosts, as Parquet files in memory.

use crate::interruptible::{self, Interrupt, THREAD_NAME};
use crate::{MADE_BY, failure};
use fleet::{Input, Inputs, Inspected, Rows, Table, Unlisted};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What could not be looked at, and why.
pub(crate) type NotFound = (PathBuf, String);

/// Paths of the inputs that are found at some paths, and those that could not be looked at, each with the reason.
#[pyfunction]
pub(crate) fn find(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<(Vec<PathBuf>, Vec<NotFound>)> {
    let Inputs { found, unlisted } = interruptible::run(py, move |_| inputs_at(&paths))?;
    Ok((found.into_iter().map(|input| input.path).collect(), not_found(unlisted)))
}

/// What was not found, for Python.
pub(crate) fn not_found(unlisted: Vec<Unlisted>) -> Vec<NotFound> {
    unlisted.into_iter().map(|Unlisted { path, error }| (path, error.to_string())).collect()
}

/// Inspects the inputs at some paths in so many threads; what can't be looked at has a row of `errors`. Returns each table's name, and the bytes of a Parquet file with its rows.
#[pyfunction]
pub(crate) fn tables(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    threads: usize,
) -> PyResult<Vec<(&'static str, Vec<u8>)>> {
    let files = interruptible::run(py, move |interrupt| {
        let Inputs { found, unlisted } = inputs_at(&paths);
        let mut rows = Rows::default();
        inspect_all(&found, threads, interrupt).into_iter().for_each(|inspected| rows.add(inspected));
        unlisted.into_iter().for_each(|one| rows.add(Inspected::unlisted(one)));
        let files = Table::ALL.map(|table| rows.parquet(table, MADE_BY).map(|bytes| (table.name(), bytes)));
        files.into_iter().collect::<Result<Vec<_>, _>>()
    })?;
    files.map_err(|error| failure::of_program(&error))
}

/// What was found at some paths.
pub(crate) fn inputs_at(paths: &[PathBuf]) -> Inputs {
    Inputs::find(paths.iter().map(|path| -> &Path { path }))
}

/// Inspects inputs, and returns them in their order. There is no pool of threads: it would be missing in a process that Python forks.
fn inspect_all(inputs: &[Input], threads: usize, interrupt: &Interrupt) -> Vec<Inspected> {
    let next = AtomicUsize::new(0);
    let finished = Mutex::new(Vec::with_capacity(inputs.len()));
    let work = || {
        while let Some((place, input)) = take(inputs, &next).filter(|_| !interrupt.is_set()) {
            let inspected = Inspected::read(input.clone(), MADE_BY);
            finished.lock().unwrap_or_else(PoisonError::into_inner).push((place, inspected));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(inputs.len()) {
            // With fewer threads than wanted it takes longer.
            let _ = thread::Builder::new().name(THREAD_NAME.to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    finished.sort_by_key(|(place, _)| *place);
    finished.into_iter().map(|(_, inspected)| inspected).collect()
}

/// The next input, with its place, that no thread has taken.
fn take<'i>(inputs: &'i [Input], next: &AtomicUsize) -> Option<(usize, &'i Input)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    inputs.get(place).map(|input| (place, input))
}
