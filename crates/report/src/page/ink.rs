//! What a piece of text is, which decides how it is painted.

use super::cost::Cost;
use host::diagnose::Severity;

/// What a piece of text is, which decides how it is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// A title.
    Heading,
    /// Names of fields, and remarks.
    Dim,
    /// Names of what the reader looks for.
    Strong,
    /// A DMA path, by its cost per I/O.
    DmaPath(Cost),
    /// A finding's severity.
    Severity(Severity),
}

impl Ink {
    /// A fact that could not be read.
    pub(crate) const UNKNOWN: Self = Self::DmaPath(Cost::Unknown);
    /// Something to look at, such as a prediction that misses.
    pub(crate) const WARNING: Self = Self::Severity(Severity::Warning);
    /// Something that is wrong, such as an allocator that failed.
    pub(crate) const FAILURE: Self = Self::Severity(Severity::Critical);
}
