//! A host with an NVMe adapter under block I/O jobs.
//!
//! ```text
//!   thread --system call--> block layer --map--> queue, doorbell --> adapter: command, data over the link, media
//!      on its CPU             table, its locks    its lock              |
//!   is woken  <-- unmap <-- completion <-- interrupt of the queue's CPU <-- completion, interrupts held back
//! ```
//!
//! Code paths are given in instructions and priced. Mapping calls run the real code of `dma` and `iova`, and what
//! they did is priced. A CPU that waits for a lock spins.

mod block_error;
mod block_host;
mod block_model;
mod experiment;
mod load;
mod media;
mod nvme_adapter;
mod outcome;
mod task;

pub use block_error::BlockError;
pub use block_host::{BlockHost, Paths};
pub use experiment::{BlockAnswer, BlockExperiment, JobAnswer, JobsError, ServedAnswer};
pub use load::NotModelled;
pub use media::{Media, Service};
pub use nvme_adapter::NvmeAdapter;
pub use outcome::{Outcome, Served, Totals};

use crate::fio::Job;
use crate::steady::Measurement;
use des::Span;

/// Host, disk, and load.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The host, including the adapter.
    pub host: BlockHost,
    /// Jobs that run at the same time.
    pub jobs: Vec<Job>,
    /// Warm-up time before measuring, at least.
    pub warm_up: Span,
    /// Measured time, at least.
    pub measured: Span,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Simulates the jobs until a measured window is steady.
///
/// # Errors
/// [`BlockError`]: an invalid setup, or no window was steady.
pub fn run(setup: &Setup) -> Result<Outcome, BlockError> {
    block_model::run(setup, setup.measurement())
}

/// The same on the reference calendar, a binary heap. It is slower and has the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, BlockError> {
    block_model::run_on_heap(setup, setup.measurement())
}

/// Simulates the jobs, and measures exactly the window of the setup. Nothing says that it is steady.
///
/// # Errors
/// [`BlockError`]: an invalid setup.
pub fn run_window(setup: &Setup) -> Result<Outcome, BlockError> {
    block_model::run(setup, Measurement::fixed(setup.warm_up, setup.measured))
}

impl Setup {
    fn measurement(&self) -> Measurement {
        Measurement::steady("reads and writes", self.warm_up, self.measured)
    }
}
