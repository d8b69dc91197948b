//! The libraries' errors as exceptions of `iotoll.errors`.

use bench::RunError;
use columns::with_causes;
use fleet::InputError;
use model::{ExperimentError, StudyError, TableError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::Path;
use sweep::PlanError;
use toll::{FieldProblem, TomlProblem};

mod class {
    pyo3::import_exception!(iotoll.errors, Error);
    pyo3::import_exception!(iotoll.errors, ExperimentError);
    pyo3::import_exception!(iotoll.errors, FolderError);
    pyo3::import_exception!(iotoll.errors, InputError);
    pyo3::import_exception!(iotoll.errors, SimulationError);
    pyo3::import_exception!(iotoll.errors, StudyError);
    pyo3::import_exception!(iotoll.errors, MeasurementError);
}

/// The file that an error is about, the line in it, and what was expected there, as far as the library knows them.
#[derive(Default)]
struct Place {
    file: Option<String>,
    line: Option<usize>,
    expected: Option<String>,
}

impl Place {
    fn line(file: &str, line: usize) -> Self {
        Self { file: Some(file.to_owned()), line: Some(line), expected: None }
    }

    fn problem(TomlProblem { file, line, problem }: &TomlProblem) -> Self {
        Self { expected: expected_of(problem), ..Self::line(file, *line) }
    }
}

/// The arguments of an exception's class: its message, with all causes, and its place.
type Arguments = (String, Option<String>, Option<usize>, Option<String>);

fn arguments(error: &dyn std::error::Error, place: Place) -> Arguments {
    (with_causes(error), place.file, place.line, place.expected)
}

/// The exception for an input that can't be inspected, and which errors call `file`.
pub(crate) fn of_input(error: &InputError, file: &str) -> PyErr {
    let place = Place { file: Some(file.to_owned()), ..Place::default() };
    class::InputError::new_err(arguments(error, place))
}

/// What the words of a deserialiser say was expected, if they do.
fn expected_of(problem: &str) -> Option<String> {
    Some(problem.split_once(", expected ")?.1.to_owned())
}

/// The exception for a study that can't be reproduced.
pub(crate) fn of_study(error: &StudyError) -> PyErr {
    let expected = match error {
        StudyError::Unknown { .. } => Some(model::studies().collect::<Vec<_>>().join(", ")),
        StudyError::ChangedTooFar { low, high, .. } => Some(format!("{low} to {high}")),
        _ => None,
    };
    class::StudyError::new_err(arguments(error, Place { expected, ..Place::default() }))
}

/// The exception for a file that describes no experiment.
pub(crate) fn of_experiment(error: &ExperimentError) -> PyErr {
    let place = match error {
        ExperimentError::Form(problem) => Place::problem(problem),
        ExperimentError::Value { file, line, expected, .. } => {
            Place { expected: Some(expected.to_string()), ..Place::line(file, *line) }
        }
        ExperimentError::OtherKind { file, .. } => Place { file: Some(file.clone()), ..Place::default() },
    };
    class::ExperimentError::new_err(arguments(error, place))
}

/// The exception for changes of an experiment that no machine has; `file` and `line` are of the field before it was changed.
pub(crate) fn of_changes(error: &TableError, file: &str, line: impl Fn(&str) -> usize) -> PyErr {
    let message = with_causes(error);
    match error {
        TableError::Form(FieldProblem { field, problem }) => {
            as_changed(message, file, line(field), expected_of(problem))
        }
        TableError::Value { field, expected, .. } => {
            as_changed(message, file, line(field), Some(expected.to_string()))
        }
    }
}

/// The exception for a change that is wrong, of the field at this line.
fn as_changed(message: String, file: &str, line: usize, expected: Option<String>) -> PyErr {
    let message = format!("{file}:{line}, as changed: {message}");
    class::ExperimentError::new_err((message, Some(file.to_owned()), Some(line), expected))
}

/// The exception for a change of a field that the machine has not.
pub(crate) fn of_field(field: &str, file: &str) -> PyErr {
    let expected = "one that the machine has; elements of a list are counted from 0";
    let message = format!("{file}: {field} is no field; expected {expected}");
    class::ExperimentError::new_err((message, Some(file.to_owned()), None::<usize>, Some(expected)))
}

/// The exception for an experiment whose jobs are wrong or whose simulation fails, and which errors call `file`.
pub(crate) fn of_run(error: &model::RunError, file: &str) -> PyErr {
    let message = with_causes(error);
    let message = if error.names_its_file() { message } else { format!("{file}: {message}") };
    let arguments = (message, Some(file.to_owned()), None::<usize>, None::<String>);
    match error {
        model::RunError::Block(error) if error.is_of_jobs() => class::ExperimentError::new_err(arguments),
        _ => class::SimulationError::new_err(arguments),
    }
}

/// The exception for a plan with a mistake.
pub(crate) fn of_plan(error: &PlanError) -> PyErr {
    let place = match error {
        PlanError::Form(problem) => Place::problem(problem),
        PlanError::Axes { file, line, expected, .. } => {
            Place { expected: Some(expected.clone()), ..Place::line(file, *line) }
        }
        PlanError::Value { place, expected, .. } => {
            Place { expected: Some(expected.to_string()), ..Place::line(&place.file, place.line) }
        }
        PlanError::Machine { place, .. } => Place::line(&place.file, place.line),
    };
    class::ExperimentError::new_err(arguments(error, place))
}

/// The exception for a folder of results that can't be read or written, or that another process writes.
pub(crate) fn of_folder(error: &dyn std::error::Error, folder: &Path) -> PyErr {
    let place = Place { file: Some(folder.display().to_string()), ..Place::default() };
    class::FolderError::new_err(arguments(error, place))
}

/// The exception for a mistake in this program: a result that can't be written.
pub(crate) fn of_program(error: &dyn std::error::Error) -> PyErr {
    class::Error::new_err(arguments(error, Place::default()))
}

/// The exception for a measurement that failed, or has an invalid setting.
pub(crate) fn of_measurement(error: &RunError) -> PyErr {
    match error {
        RunError::Baseline(_) | RunError::Setting(_) => PyValueError::new_err(error.to_string()),
        _ => class::MeasurementError::new_err(arguments(error, Place::default())),
    }
}
