//! Lines that a parser could not read: told, never dropped.

use crate::Citation;
use std::fmt;

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not in any layout a kernel is known to print.
    #[error("no known layout")]
    Layout,
    /// A number that does not fit, or is none.
    #[error("a number is missing or does not fit 64 bits")]
    Number,
    /// A range that is empty or ends beyond 64 bits.
    #[error("the range is empty or ends beyond 64 bits")]
    Range,
    /// A word that names no memory type.
    #[error("unknown memory type")]
    MemoryType,
    /// A register beyond what a processor can have.
    #[error("no processor has a register of this number")]
    Register,
    /// The same register a second time.
    #[error("this register was listed before")]
    Repeated,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProblem {
    /// The line.
    pub at: Citation,
    /// What is wrong with it.
    pub what: Unreadable,
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.at, self.what)
    }
}
