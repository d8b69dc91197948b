//! What is wrong with a job file, and where.

/// The options that are modelled, as an error names them.
const NAMES: &str = "rw, rwmixread, rwmixwrite, bs, iodepth, numjobs, ioengine, direct or buffered; or what says where, how long or what is reported";

/// A place in a job file, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct FioError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A file of this length is no job file.
    #[error("{bytes} bytes; expected a job file of {bytes_max} at most")]
    Length {
        /// What it has.
        bytes: usize,
        /// What it may have.
        bytes_max: usize,
    },
    /// More jobs than anybody wrote.
    #[error("more than {0} jobs")]
    Jobs(usize),
    /// There is none.
    #[error("no job; expected a section such as [job] besides [global]")]
    NoJob,
    /// A section's name that doesn't end, or is none.
    #[error("{0}; expected a section's name such as [job]")]
    Section(String),
    /// An option that belongs to no section.
    #[error("{0} stands before the first section")]
    Outside(String),
    /// An option without its value.
    #[error("{0} has no value")]
    NoValue(String),
    /// A value that can't be, or is not modelled.
    #[error("{option} is {value}; expected {expected}")]
    Value {
        /// Of what.
        option: String,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// An option that the model has nothing for.
    #[error("{0} is not modelled; expected {known}", known = NAMES)]
    NotModelled(String),
    /// Reads and writes that the page cache would answer.
    #[error("job {0} goes through the page cache, which is not modelled; expected direct=1")]
    Cached(String),
}

impl Problem {
    pub(super) fn value(option: &str, value: &str, expected: &'static str) -> Self {
        Self::Value { option: option.to_owned(), value: value.to_owned(), expected }
    }
}
