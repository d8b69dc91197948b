//! What goes wrong is told, and ends the program.

/// Anything that goes wrong, in words.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
