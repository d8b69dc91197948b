//! The libraries' errors as exceptions of `iotoll.errors`.

use bench::RunError;
use fleet::InputError;
use model::StudyError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

mod class {
    pyo3::import_exception!(iotoll.errors, Error);
    pyo3::import_exception!(iotoll.errors, InputError);
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

/// The arguments of an exception's class: its message, with all causes, and its place.
type Arguments = (String, Option<String>, Option<usize>, Option<String>);

fn arguments(error: &dyn std::error::Error, place: Place) -> Arguments {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    (message, place.file, place.line, place.expected)
}

/// The exception for an input that can't be inspected, and which errors call `file`.
pub(crate) fn of_input(error: &InputError, file: &str) -> PyErr {
    let place = Place { file: Some(file.to_owned()), ..Place::default() };
    class::InputError::new_err(arguments(error, place))
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
