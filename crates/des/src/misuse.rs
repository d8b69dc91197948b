//! Invalid uses of resources and statistics.

use crate::Time;

/// An invalid use of a resource or a statistic. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// No server, or no level.
    #[error("a resource of {servers} servers and {levels} levels; expected at least one of each")]
    Empty {
        /// Servers requested.
        servers: u64,
        /// Levels requested.
        levels: usize,
    },
    /// The level does not exist.
    #[error("level {level}; expected less than {levels}")]
    NoSuchLevel {
        /// The level given.
        level: usize,
        /// Number of levels.
        levels: usize,
    },
    /// A release without a busy server.
    #[error("a server was released, but none is busy")]
    NobodyServed,
    /// A call with a time before that of an earlier call.
    #[error("the time went back from {last:?} to {now:?}")]
    TimeWentBack {
        /// The time given.
        now: Time,
        /// The time before.
        last: Time,
    },
    /// An invalid precision of a histogram.
    #[error("a histogram of {0} digits; expected 1 to 5")]
    Digits(u8),
    /// An invalid confidence of an interval.
    #[error("a confidence of {0}; expected a share above 0 and below 1, such as 0.95")]
    Confidence(f64),
}
