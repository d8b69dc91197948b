//! What a resource refuses.

use crate::Time;

/// A model used a resource or a statistic in a way that has no meaning. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Nobody could ever be served.
    #[error("a resource needs one server and one level at least, not {servers} and {levels}")]
    Empty {
        /// How many servers were asked for.
        servers: u64,
        /// How many levels.
        levels: usize,
    },
    /// Levels are counted from 0.
    #[error("there is no level {level} among {levels}")]
    NoSuchLevel {
        /// The one asked for.
        level: usize,
        /// How many there are.
        levels: usize,
    },
    /// A server was given back that nobody had.
    #[error("nobody is served, so nobody can be done")]
    NobodyServed,
    /// Time only goes on.
    #[error("it is {now}, but was {last} already")]
    TimeWentBack {
        /// What time it was said to be.
        now: Time,
        /// What time it was before.
        last: Time,
    },
    /// Of a histogram.
    #[error("a histogram keeps 1 to 5 digits, not {0}")]
    Digits(u8),
}
