//! The documents that can be compared: which kind a text is, and reading it as one.
//!
//! They are read by types of their own. Those that write them borrow names from the program and flatten their heads, so that reading with them
//! would lose the place of an error; and a comparison needs a third of the fields. What is read the same way is shared (`watch::Interval`,
//! `bench::HostSummary`).

use crate::comparison::Side;
use crate::sample::RUNS_MAX;
use serde::Deserialize;
use std::fmt;
use toll::SheetError;

/// The schemas of documents that can be compared, with their kinds.
const SCHEMAS: [(&str, Kind); 9] = [
    (watch::SCHEMA, Kind::Watch),
    (toll::SheetSchema::ID, Kind::TollSheet),
    (bench::SCHEMA, Kind::Bench(Benchmark::Iova)),
    (bench::MAP_SCHEMA, Kind::Bench(Benchmark::Map)),
    (bench::MAP_THREADS_SCHEMA, Kind::Bench(Benchmark::MapThreads)),
    (bench::MEMTYPE_SCHEMA, Kind::Bench(Benchmark::Memtype)),
    (bench::BLK_SCHEMA, Kind::Bench(Benchmark::Blk)),
    (bench::TRANSFER_SCHEMA, Kind::Bench(Benchmark::Transfer)),
    (bench::net::NET_SCHEMA, Kind::Bench(Benchmark::Net)),
];

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of `iotoll watch`.
    Watch,
    /// Of `iotoll lab run`.
    TollSheet,
    /// Of `iotoll bench`.
    Bench(Benchmark),
}

/// A benchmark of `iotoll bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Benchmark {
    /// `iotoll bench iova`.
    Iova,
    /// `iotoll bench map`.
    Map,
    /// `iotoll bench map --threads`.
    MapThreads,
    /// `iotoll bench memtype`.
    Memtype,
    /// `iotoll bench blk`.
    Blk,
    /// `iotoll bench transfer`.
    Transfer,
    /// `iotoll bench net`.
    Net,
}

impl Kind {
    /// Its schema, with the version.
    pub fn schema(self) -> &'static str {
        SCHEMAS.iter().find(|(_, kind)| *kind == self).map_or("", |(schema, _)| schema)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Watch => "a document of iotoll watch",
            Self::TollSheet => "a toll sheet of iotoll lab run",
            Self::Bench(Benchmark::Iova) => "a document of iotoll bench iova",
            Self::Bench(Benchmark::Map) => "a document of iotoll bench map",
            Self::Bench(Benchmark::MapThreads) => "a document of iotoll bench map --threads",
            Self::Bench(Benchmark::Memtype) => "a document of iotoll bench memtype",
            Self::Bench(Benchmark::Blk) => "a document of iotoll bench blk",
            Self::Bench(Benchmark::Transfer) => "a document of iotoll bench transfer",
            Self::Bench(Benchmark::Net) => "a document of iotoll bench net",
        })
    }
}

/// The schemas that are read, as a list.
fn schemas() -> String {
    SCHEMAS.map(|(schema, _)| schema).join(", ")
}

/// Why texts can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// They are documents of different kinds.
    #[error("{file} is {kind} ({}) and {other} is {other_kind} ({}); expected documents of one kind", kind.schema(), other_kind.schema())]
    Kinds {
        /// The first file.
        file: String,
        /// What it is.
        kind: Kind,
        /// The first file that is of another kind.
        other: String,
        /// What it is.
        other_kind: Kind,
    },
    /// A side has no document, or too many.
    #[error("{}: {number} documents; expected 1 to {RUNS_MAX}", side.word())]
    Number {
        /// The side.
        side: Side,
        /// How many documents it has.
        number: usize,
    },
    /// A document was given twice.
    #[error(
        "{file}: the same document as {other}, which was given before; expected each run once, since a copy says nothing of how runs differ"
    )]
    Twice {
        /// The file.
        file: String,
        /// The file with the same text, which was given before.
        other: String,
    },
    /// Toll sheets, of which there are several for a side.
    #[error(
        "{file}: one of several toll sheets of a side; expected one before and one after, since a sheet holds several boots already (iotoll lab run --boots)"
    )]
    Sheets {
        /// The first file of that side.
        file: String,
    },
    /// A toll sheet can't be read.
    #[error(transparent)]
    Sheet(#[from] SheetError),
    /// It is not JSON, or not of the document's fields and types.
    #[error("{file}:{line}:{column}: {problem}; expected {expected}")]
    Json {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, in bytes.
        column: usize,
        /// What is there.
        problem: String,
        /// The document.
        expected: String,
    },
    /// It has the schema of another document or version.
    #[error("{file}: schema is `{found}`; expected one of {}", schemas())]
    Schema {
        /// The file.
        file: String,
        /// The schema it names.
        found: String,
    },
    /// It has no schema.
    #[error("{file}: a JSON object without a field `schema`; expected one of {}", schemas())]
    NoSchema {
        /// The file.
        file: String,
    },
    /// It contradicts itself, or is too large.
    #[error("{file}: {place}: {problem}")]
    Content {
        /// The file.
        file: String,
        /// The field.
        place: String,
        /// What is wrong, and what was expected.
        problem: String,
    },
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flaw {
    /// The field.
    pub(crate) place: String,
    /// What is wrong, and what was expected.
    pub(crate) problem: String,
}

impl Flaw {
    pub(crate) fn new(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into() }
    }
}

/// A document that can be checked after it was parsed.
pub(crate) trait Checked {
    /// What is wrong with it.
    fn check(&self) -> Result<(), Flaw>;
}

/// The field that names the kind of document.
#[derive(Deserialize)]
struct Schema {
    schema: Option<String>,
}

/// The kind of a document, from the text of a file, whose name is for errors only.
///
/// # Errors
/// [`DocumentError`] if it is not JSON, or of no schema that can be compared.
pub(crate) fn kind(text: &str, file: &str) -> Result<Kind, DocumentError> {
    let schema: Schema = parse(text, file, "a JSON document of iotoll")?;
    let found = schema.schema.ok_or_else(|| DocumentError::NoSchema { file: file.to_owned() })?;
    let known = SCHEMAS.iter().find(|(schema, _)| *schema == found);
    known.map(|(_, kind)| *kind).ok_or_else(|| DocumentError::Schema { file: file.to_owned(), found })
}

/// Reads a document of this kind.
pub(crate) fn read<'t, T: Deserialize<'t> + Checked>(
    text: &'t str,
    file: &str,
    kind: Kind,
) -> Result<T, DocumentError> {
    let document: T = parse(text, file, &kind.to_string())?;
    document.check().map_err(|Flaw { place, problem }| DocumentError::Content {
        file: file.to_owned(),
        place,
        problem,
    })?;
    Ok(document)
}

/// Parses JSON. The error has the line and column once.
fn parse<'t, T: Deserialize<'t>>(text: &'t str, file: &str, expected: &str) -> Result<T, DocumentError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let words = error.to_string();
        // serde_json appends the position, which the error has in front already.
        let place = format!(" at line {line} column {column}");
        let problem = words.strip_suffix(&place).unwrap_or(&words).to_owned();
        DocumentError::Json { file: file.to_owned(), line, column, problem, expected: expected.to_owned() }
    })
}
