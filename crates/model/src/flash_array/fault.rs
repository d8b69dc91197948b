//! Faults during a simulation.

use super::path::PathId;
use des::Span;

/// A fault of a path's cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Time since the start.
    pub at: Span,
    /// The path.
    pub path: PathId,
    /// Pulled or plugged in.
    pub change: Change,
}

/// A change of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Pulled: commands and responses in flight are lost.
    Pulled,
    /// Plugged in again.
    Plugged,
}
