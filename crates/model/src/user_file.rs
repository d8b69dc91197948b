//! Parsing and validation of users' files.

use crate::link::Link;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use toll::{TomlProblem, TomlText};

/// Why a file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Not valid TOML, or not the expected fields.
    #[error(transparent)]
    Form(#[from] TomlProblem),
    /// A field is out of range.
    #[error("{file}:{line}: {field} is {value}; expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Field.
        field: Cow<'static, str>,
        /// Its value.
        value: String,
        /// Allowed values.
        expected: Cow<'static, str>,
    },
    /// A file of another kind, which another command reads.
    #[error("{file} describes a {kind}; expected an experiment; `{command}` runs a {kind}")]
    OtherKind {
        /// The file.
        file: String,
        /// What it describes.
        kind: &'static str,
        /// The command that runs it.
        command: &'static str,
    },
}

/// Parses a file's text. `file` is its name, for errors; `wrong` returns the first invalid field.
///
/// # Errors
/// [`ExperimentError`]
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    file: &str,
    wrong: impl Fn(&T) -> Option<InvalidField>,
) -> Result<T, ExperimentError> {
    let read: T = TomlText::new(text, file).read()?;
    match wrong(&read) {
        None => Ok(read),
        Some(wrong) => Err(wrong.at(text, file)),
    }
}

/// Limits of fields: one second in nanoseconds,
const TIME_MAX_NS: f64 = 1e9;
const INSTRUCTIONS_MAX: f64 = 1e9;

/// An invalid field.
pub(crate) struct InvalidField {
    pub(crate) field: Cow<'static, str>,
    pub(crate) value: String,
    pub(crate) expected: Cow<'static, str>,
}

impl InvalidField {
    /// The error, with the line of the field.
    pub(crate) fn at(self, text: &str, file: &str) -> ExperimentError {
        let Self { field, value, expected } = self;
        let line = TomlText::new(text, file).line_of_value(&field, &value);
        ExperimentError::Value { file: file.to_owned(), line, field, value, expected }
    }

    /// The error for a field, unless its value is valid.
    pub(crate) fn unless(
        holds: bool,
        field: &'static str,
        value: impl ToString,
        expected: &'static str,
    ) -> Option<Self> {
        (!holds).then(|| Self { field: field.into(), value: value.to_string(), expected: expected.into() })
    }

    /// The error for a field, unless it is a time from 0 to 1 s, in ns.
    pub(crate) fn unless_time(field: &'static str, value: f64) -> Option<Self> {
        Self::unless((0.0..=TIME_MAX_NS).contains(&value), field, value, "0 to 1e9")
    }

    /// The error for a field, unless it is a count from 1 to `most`.
    pub(crate) fn unless_count(field: &'static str, value: u64, most: u64) -> Option<Self> {
        let is_count = (1..=most).contains(&value);
        (!is_count).then(|| Self {
            field: field.into(),
            value: value.to_string(),
            expected: format!("1 to {most}").into(),
        })
    }

    /// The error for a field, unless it is a number of instructions that can be simulated.
    pub(crate) fn unless_instructions(field: &'static str, value: f64) -> Option<Self> {
        Self::unless((0.0..=INSTRUCTIONS_MAX).contains(&value), field, value, "0 to 1e9")
    }

    /// Prefixes the field with the table `of`.
    pub(crate) fn of(self, of: &str) -> Self {
        Self { field: format!("{of}.{}", self.field).into(), ..self }
    }
}

/// The first invalid field of a link.
pub(crate) fn wrong_link(link: &Link) -> Option<InvalidField> {
    let size = |field, bytes: u64| {
        let is_size = bytes.is_power_of_two() && (64..=4096).contains(&bytes);
        InvalidField::unless(is_size, field, bytes, "a power of two from 64 to 4096")
    };
    let is_share = (0.0..=0.9).contains(&link.overhead_share);
    let wrong = [
        InvalidField::unless((1..=32).contains(&link.lanes), "link.lanes", link.lanes, "1 to 32"),
        size("link.payload_bytes_max", link.payload_bytes_max),
        size("link.read_request_bytes_max", link.read_request_bytes_max),
        size("link.completion_boundary_bytes", link.completion_boundary_bytes),
        InvalidField::unless(is_share, "link.overhead_share", link.overhead_share, "0 to 0.9"),
    ];
    wrong.into_iter().flatten().next()
}
