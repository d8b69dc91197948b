//! Progress of reading a capture, for a caller that displays it.

use std::rc::Rc;

/// Amounts since the source was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read from the file or pipe.
    pub bytes_in: u64,
    /// Bytes that came out of decompression; the same as `bytes_in` where nothing is compressed.
    pub bytes_unpacked: u64,
    /// Members of an archive.
    pub members: u64,
    /// Files and folders read of the host.
    pub files: u64,
}

/// Is called with the progress after every read, so it must return quickly. Unpacking and reading share it.
pub type Watcher = Rc<dyn Fn(Progress)>;

/// A watcher that does nothing.
pub(super) fn ignore() -> Watcher {
    Rc::new(|_| {})
}
