//! How far reading an outside source has come, for a caller that shows it.

use std::rc::Rc;

/// Amounts since the source was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken from the file or pipe that was named.
    pub bytes_in: u64,
    /// Bytes that came out of decompression; the same as `bytes_in` where nothing is compressed.
    pub bytes_unpacked: u64,
    /// Members of an archive.
    pub members: u64,
    /// Files and folders read of the host.
    pub files: u64,
}

/// Is told of progress, often: it must be quick. Shared by what unpacks and what reads.
pub type Watcher = Rc<dyn Fn(Progress)>;

/// A watcher that does nothing.
pub(super) fn nobody() -> Watcher {
    Rc::new(|_| {})
}
