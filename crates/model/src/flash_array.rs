//! A host whose kernel, or a library in its processes, reads and writes a flash array through adapters with ports.
//!
//! ```text
//!  thread --system call--> file system --> disk driver --> path --> protocol --> adapter's queue --> port ==wire== port --> modules
//!                                          its lock         |        its lock     its lock, its      of the array
//!                                                     multipath                   pages' TCEs
//!  is woken <------------- disk driver <------------------- protocol <-- interrupt of the queue <----------- data, or no answer
//! ```
//!
//! A Fibre Channel adapter has one queue; a CAPI adapter has hundreds, of which the kernel takes some and processes the others, and it
//! reaches memory by the addresses that programs have, so that nothing is mapped for it. What mapping does is asked of the real code of
//! `dma` and `iova`. A CPU that waits for a lock spins.

mod adapter;
mod array;
mod experiment;
mod fault;
mod load;
mod lock;
mod machine;
mod multipath;
mod outcome;
mod path;
mod setup;
mod stack;
mod task;

pub use adapter::Adapter;
pub use array::{Array, SECTOR_BYTES, Service};
pub use experiment::{FlashArrayAnswer, FlashArrayExperiment, FlashArrayServed, LockAnswer, LogAnswer};
pub use fault::{Change, Fault};
pub use load::{Job, Way};
pub use lock::LockKind;
pub use multipath::{LogEntry, Multipath, Policy, What};
pub use outcome::{LockUsage, Outcome, Served, Totals};
pub use path::PathId;
pub use setup::{FlashArrayError, Setup, Translation};
pub use stack::{Library, Module, Stack};

/// Lets the jobs run, and says what came of it.
///
/// # Errors
/// [`FlashArrayError`]: what can't be built that way.
pub fn run(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    machine::run(setup)
}

/// The same on the reference calendar, a plain heap: slower, with the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    machine::run_on_heap(setup)
}
