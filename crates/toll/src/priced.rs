//! What a price is of.

use crate::Event;
use std::fmt;

/// What a price is of: an instruction, or an event of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priced {
    /// An instruction.
    Instruction,
    /// An event.
    Event(Event),
}

/// The name of its table in a price list: `instruction_ns`, `event_ns.invalidations`.
impl fmt::Display for Priced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction => f.pad("instruction_ns"),
            Self::Event(event) => write!(f, "event_ns.{event}"),
        }
    }
}
