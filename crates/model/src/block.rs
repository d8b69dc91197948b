//! A host with an NVMe adapter under block jobs.
//!
//! ```text
//!   thread --system call--> block layer --map--> queue, doorbell --> adapter: command, data over the link, media
//!      on its CPU             table, its locks    its lock              |
//!   is woken  <-- unmap <-- completion <-- interrupt of the queue's CPU <-- completion, interrupts held back
//! ```
//!
//! Instructions are given by path, and priced; what a mapping does is asked of the real code of `dma` and `iova`, call by call,
//! and what it did is priced. A CPU that waits for a lock spins.

mod adapter;
mod experiment;
mod host;
mod load;
mod machine;
mod media;
mod outcome;
mod task;

pub use adapter::Adapter;
pub use experiment::{BlockAnswer, BlockExperiment, JobAnswer, JobsError, ServedAnswer};
pub use host::{Host, Paths};
pub use load::NotModelled;
pub use media::{Media, Service};
pub use outcome::{Outcome, Served, Totals};

use crate::fio::Job;
use crate::host::HostError;
use des::Span;

/// A host, its disk, and what its threads do with it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The host, with the adapter.
    pub host: Host,
    /// What runs at the same time.
    pub jobs: Vec<Job>,
    /// Time before anything is measured.
    pub warm_up: Span,
    /// Time that is measured.
    pub measured: Span,
    /// Of all random choices.
    pub seed: u64,
}

/// Lets the jobs run, and says what came of it.
///
/// # Errors
/// What can't be mapped or built that way.
pub fn run(setup: &Setup) -> Result<Outcome, HostError> {
    machine::run(setup)
}

/// The same on the reference calendar, a plain heap: slower, with the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, HostError> {
    machine::run_on_heap(setup)
}
