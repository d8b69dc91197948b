//! What goes wrong, and when.

use super::path::PathId;
use des::Span;

/// Something that happens to a path's cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// When, since the beginning of time.
    pub at: Span,
    /// To which.
    pub path: PathId,
    /// What.
    pub change: Change,
}

/// What happens to a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is pulled: what is on its way there and back never arrives.
    Pulled,
    /// It is plugged in again.
    Plugged,
}
