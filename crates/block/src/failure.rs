//! Why a command failed: kept with it, for the thread that fetches its result.

use crate::errno::say;
use rustix::io::Errno;
use std::error::Error;

/// An error number, and the text of the error that it stands for.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: Errno,
    text: String,
}

impl Failure {
    /// What failed and why, with all causes.
    #[cold]
    pub(crate) fn new(what: &str, error: &dyn Error, errno: Errno) -> Self {
        let mut text = format!("{what}: {error}");
        let mut cause = error.source();
        while let Some(next) = cause {
            text = format!("{text}: {next}");
            cause = next.source();
        }
        Self { errno, text }
    }

    pub(crate) fn errno(&self) -> Errno {
        self.errno
    }

    /// Keeps the text for this thread's caller, and returns the number that stands for it.
    #[cold]
    pub(crate) fn tell(self) -> Errno {
        say(self.text, self.errno)
    }
}
