//! What a profile says.

use super::Flowop;
use des::Span;

/// A profile: groups that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its groups.
    pub groups: Vec<Group>,
}

/// Threads or processes that all do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its line in the file, from 1.
    pub line: u32,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Who does it.
    pub strands: Strands,
    /// What each does, one after another; all begin one together.
    pub transactions: Vec<Transaction>,
}

/// Who does a group's work, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strands {
    /// Threads of one process.
    Threads(u32),
    /// Processes.
    Processes(u32),
}

/// Flowops in order, again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Its line in the file, from 1.
    pub line: u32,
    /// How often.
    pub repeat: Repeat,
    /// What is done each time.
    pub flowops: Vec<Flowop>,
}

/// How often a transaction is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// So many times; once where the profile doesn't say.
    Times(u32),
    /// As often as it can be in a time.
    For {
        /// The time.
        span: Span,
        /// Not oftener than this.
        rate_per_second: Option<u32>,
    },
}
