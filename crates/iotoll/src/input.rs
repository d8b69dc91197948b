//! Files of the user's, read whole: no more of them than such a file has.

use anyhow::{Context, bail};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A description of a machine, or a plan, has a few KiB.
pub(crate) const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Reads text from a file or a pipe; `what` says what it should be. A named pipe that nobody writes to is an error.
pub(crate) fn text(path: &Path, bytes_max: u64, what: &str) -> anyhow::Result<String> {
    let file = path.display();
    let unreadable = || format!("can't read {what} {file}");
    let mut text = String::new();
    let mut bytes = open(path).with_context(unreadable)?.take(bytes_max + 1);
    let read = bytes.read_to_string(&mut text).with_context(unreadable)?;
    if read as u64 > bytes_max {
        bail!("{file}: larger than {} MiB, expected a {what} of less", bytes_max >> 20);
    }
    Ok(text)
}

/// Opens a file. Opening it the usual way would wait until somebody writes to a named pipe; here a pipe without writers is refused.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let mut first = [0];
    let read = match file.read(&mut first) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Ok(0) if file.metadata()?.file_type().is_fifo() => {
            return Err(io::Error::other("a pipe that is empty, or that nobody writes to"));
        }
        read => read?,
    };
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(Box::new(io::Cursor::new(first).take(read as u64).chain(file)))
}
