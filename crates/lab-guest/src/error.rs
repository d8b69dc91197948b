//! Errors, which end the program.

/// Any error, printed on standard error.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
