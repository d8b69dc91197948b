//! What is wrong with a profile, and where.

/// A place in a profile, and what is wrong there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The character of the line, from 1.
    pub column: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A file of this length is no profile.
    #[error("{bytes} bytes; expected a profile of {bytes_max} at most")]
    Length {
        /// What it has.
        bytes: usize,
        /// What it may have.
        bytes_max: usize,
    },
    /// It is not XML, or has declarations of its own.
    #[error("expected XML without a DTD: {0}")]
    Xml(roxmltree::Error),
    /// A namespace is declared.
    #[error("xmlns; expected elements without namespaces")]
    Namespace,
    /// Something else stands where an element should.
    #[error("{found}; expected {expected}")]
    Content {
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// An element lacks something.
    #[error("<{element}> without {missing}")]
    Missing {
        /// The element.
        element: String,
        /// What it lacks.
        missing: String,
    },
    /// An attribute that the element doesn't have.
    #[error("<{element}> with {attribute}=; expected {expected}")]
    Attribute {
        /// The element.
        element: String,
        /// The attribute.
        attribute: String,
        /// Those that it has.
        expected: &'static str,
    },
    /// Two attributes of which there may be one.
    #[error("{first}= and {second}= exclude each other")]
    Both {
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A rate that uperf would not keep.
    #[error("rate= without duration=: uperf keeps a rate for a duration only")]
    RateWithoutDuration,
    /// A variable that is not set, or is empty.
    #[error("${0} is not set")]
    Unset(String),
    /// An option that uperf doesn't have.
    #[error("{0} is no option of a flowop")]
    Option(String),
    /// A value that can't be.
    #[error("{name} is {value}; expected {expected}")]
    Value {
        /// Of what.
        name: String,
        /// What it is.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

impl Problem {
    pub(super) fn value(name: &str, value: &str, expected: &'static str) -> Self {
        Self::Value { name: name.to_owned(), value: value.to_owned(), expected }
    }
}
