//! A host whose kernel, or a library in its processes, reads and writes a flash array through adapters with ports.
//!
//! ```text
//!  thread --system call--> file system --> disk driver --> path --> protocol --> adapter's queue --> port ==cable==
//! port --> modules
//!                                          (disk lock)      |       (port lock)  (queue lock,               of the
//! array
//!                                                       multipath                 TCEs of its pages)
//!  woken up <------------- disk driver <------------------ protocol <--- interrupt of the queue <---- data, or a
//! lost link
//! ```
//!
//! A Fibre Channel adapter has one queue. A CAPI adapter has hundreds: some for the kernel, the others for processes.
//! It uses virtual
//! addresses, so nothing is mapped for it. Mapping costs come from the real code of `dma` and `iova`. A CPU that
//! waits for a lock spins.

mod array;
mod array_adapter;
mod experiment;
mod fault;
mod flash_array_model;
mod load;
mod lock;
mod multipath;
mod outcome;
mod path;
mod setup;
mod stack;
mod task;

pub use array::{Array, SECTOR_BYTES, Service};
pub use array_adapter::ArrayAdapter;
pub use experiment::{FlashArrayAnswer, FlashArrayExperiment, FlashArrayServed, LockAnswer, LogAnswer};
pub use fault::{Change, Fault};
pub use load::{IoInterface, Job};
pub use lock::LockKind;
pub use multipath::{LogEntry, Multipath, PathChange, Policy};
pub use outcome::{LockUsage, Outcome, Served, Totals};
pub use path::PathId;
pub use setup::{FlashArrayError, Setup, Translation};
pub use stack::{Library, Module, Stack};

use crate::steady::Measurement;

/// Simulates the jobs until a measured window is steady; with faults in it, exactly that of the setup.
///
/// # Errors
/// [`FlashArrayError`]: an invalid setup, or no window was steady.
pub fn run(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    flash_array_model::run(setup, setup.measurement())
}

/// The same on the reference calendar, a binary heap. It is slower and has the same outcome.
///
/// # Errors
/// As [`run`].
pub fn run_on_heap(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    flash_array_model::run_on_heap(setup, setup.measurement())
}

/// Simulates the jobs, and measures exactly the window of the setup. Nothing says that it is steady.
///
/// # Errors
/// [`FlashArrayError`]: an invalid setup.
pub fn run_window(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    flash_array_model::run(setup, Measurement::fixed(setup.warm_up, setup.measured))
}

impl Setup {
    /// A fault changes the machine, so a window that contains one is not steady, and is what the setup asks for.
    fn measurement(&self) -> Measurement {
        if self.faults.iter().any(|fault| fault.at >= self.warm_up) {
            return Measurement::fixed(self.warm_up, self.measured);
        }
        Measurement::steady("reads and writes", self.warm_up, self.measured)
    }
}
