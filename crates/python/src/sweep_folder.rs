//! The folder of `iotoll sweep --out`, for many processes: one locks it and finds what is to be done, the others do it.

use crate::fleet_folder::SHARD;
use crate::{MADE_BY, failure, interruptible, whole_file};
use columns::ShardLock;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use sweep::{Plan, PlanError, ResultsFolder, ResultsFolderError, Row, Table};

/// A folder of results of a plan, which is locked until it is closed.
#[pyclass(frozen)]
pub(crate) struct SweepFolder {
    /// The places of the plan's points that have no row yet.
    unfinished: Vec<u64>,
    /// How many points the plan has.
    points: u64,
    lock: std::sync::Mutex<Option<ShardLock>>,
}

/// Why points can't be run.
enum SweepError {
    Plan(PlanError),
    Folder(ResultsFolderError),
    NoPlace { place: u64, points: u64 },
}

impl From<PlanError> for SweepError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<ResultsFolderError> for SweepError {
    fn from(error: ResultsFolderError) -> Self {
        Self::Folder(error)
    }
}

impl SweepError {
    fn exception(&self, folder: &Path) -> PyErr {
        match self {
            Self::Plan(error) => failure::of_plan(error),
            Self::Folder(error) => failure::of_folder(error, folder),
            Self::NoPlace { place, points } => {
                let text = format!("the plan has no point {place}; its {points} points are counted from 0");
                PyValueError::new_err(text)
            }
        }
    }
}

#[pymethods]
impl SweepFolder {
    /// Checks all points of a plan, creates the folder if it is missing, locks it, and finds the points that have no row. Errors call the plan
    /// `file`.
    #[new]
    fn new(py: Python<'_>, plan: String, file: String, path: PathBuf) -> PyResult<Self> {
        let folder = path.clone();
        let opened = interruptible::run(py, move |interrupt| {
            let plan = Plan::read(&plan, &file)?;
            let results = results_folder(&plan, &folder)?;
            let lock = results.lock(SHARD)?;
            let finished = results.finished()?;
            let mut unfinished = Vec::new();
            for position in 0..plan.len() {
                interrupt.end_thread_if_set();
                if !finished.contains_key(&plan.point(position)?.key) {
                    unfinished.push(position);
                }
            }
            Ok(Self { unfinished, points: plan.len(), lock: Some(lock).into() })
        })?;
        opened.map_err(|error: SweepError| error.exception(&path))
    }

    /// The places of the points that have no row yet.
    #[getter]
    fn unfinished(&self) -> Vec<u64> {
        self.unfinished.clone()
    }

    /// How many points the plan has.
    #[getter]
    fn points(&self) -> u64 {
        self.points
    }

    /// Unlocks it.
    fn close(&self) {
        self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }
}

/// Runs the points of a plan at some places, and adds their rows to a folder with results of the same plan, or of none. Returns how many have a result, and how many an error.
#[pyfunction]
pub(crate) fn run_points(
    py: Python<'_>,
    plan: String,
    file: String,
    folder: PathBuf,
    positions: Vec<u64>,
) -> PyResult<(usize, usize)> {
    let path = folder.clone();
    let added = interruptible::run(py, move |interrupt| {
        let plan = Plan::read(&plan, &file)?;
        let points = plan.len();
        if let Some(place) = positions.iter().copied().find(|place| *place >= points) {
            return Err(SweepError::NoPlace { place, points });
        }
        let results = results_folder(&plan, &path)?;
        results.check_plan()?;
        let mut rows: Vec<Row> = Vec::new();
        for position in positions {
            interrupt.end_thread_if_set();
            rows.push(plan.point(position)?.run());
        }
        let errors = rows.iter().filter(|row| row.outcome.is_err()).count();
        if !rows.is_empty() {
            results.add(&rows)?;
        }
        Ok((rows.len() - errors, errors))
    })?;
    added.map_err(|error: SweepError| error.exception(&folder))
}

fn results_folder(plan: &Plan, path: &Path) -> Result<ResultsFolder, SweepError> {
    Ok(ResultsFolder::create(path, Table::of(plan, MADE_BY)?, whole_file::write)?)
}
