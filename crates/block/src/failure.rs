//! Why a command failed: kept with it, for the thread that fetches its result.

use crate::errno::{errno_of, explain};
use nvme::chunk::ChunkError;
use rustix::io::Errno;

/// What failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) what: &'static str,
    pub(crate) error: ChunkError,
}

impl Failure {
    pub(crate) fn errno(&self) -> Errno {
        errno_of(&self.error)
    }

    /// Keeps the text for this thread's caller, and returns the number that stands for it.
    #[cold]
    pub(crate) fn tell(&self) -> Errno {
        explain(self.what, &self.error, self.errno())
    }
}
