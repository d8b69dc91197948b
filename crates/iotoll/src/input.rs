//! Files of the user's, read whole: no more of them than such a file has.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A description of a machine, or a plan, has a few KiB.
pub(crate) const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Reads text from a file or a pipe; `what` says what it should be.
pub(crate) fn text(path: &Path, bytes_max: u64, what: &str) -> anyhow::Result<String> {
    let file = path.display();
    let unreadable = || format!("can't read {what} {file}");
    let mut text = String::new();
    let mut bytes = File::open(path).with_context(unreadable)?.take(bytes_max + 1);
    let read = bytes.read_to_string(&mut text).with_context(unreadable)?;
    if read as u64 > bytes_max {
        bail!("{file}: larger than {} MiB, expected a {what} of less", bytes_max >> 20);
    }
    Ok(text)
}
