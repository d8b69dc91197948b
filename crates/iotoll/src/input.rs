//! Reads text files that the user names, up to a size limit.

use anyhow::{Context, anyhow, bail};
use model::uperf::{Problem, Profile, Variables};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Size limit of experiments, plans, presets, price lists and the like, which have a few KiB.
pub(crate) const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Reads a text file or pipe. `kind` names what it should be, for errors. A named pipe without a writer is an error.
pub(crate) fn read_text(path: &Path, bytes_max: u64, kind: &str) -> anyhow::Result<String> {
    let file = path.display();
    let unreadable = || format!("can't read {kind} {file}");
    let mut text = String::new();
    let mut bytes = open(path).with_context(unreadable)?.take(bytes_max + 1);
    let read = bytes.read_to_string(&mut text).with_context(unreadable)?;
    if read as u64 > bytes_max {
        bail!("{file}: larger than {} MiB; expected a smaller {kind}", bytes_max >> 20);
    }
    Ok(text)
}

/// Reads a profile of uperf with these variables, which the options `--set` give.
pub(crate) fn read_profile(path: &Path, variables: &Variables) -> anyhow::Result<Profile> {
    let text = read_text(path, DESCRIPTION_BYTES_MAX, "profile")?;
    Profile::read(&text, &path.display().to_string(), variables).map_err(|error| match &error.problem {
        Problem::Unset(name) => anyhow!("{error}; expected --set {name}=VALUE"),
        _ => error.into(),
    })
}

/// Opens a file or pipe. A plain open of a named pipe would block until it has a writer; here a pipe without one is an error.
fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let mut first = [0];
    let read = match file.read(&mut first) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Ok(0) if file.metadata()?.file_type().is_fifo() => {
            return Err(io::Error::other("it is a pipe that is empty or has no writer"));
        }
        read => read?,
    };
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(Box::new(io::Cursor::new(first).take(read as u64).chain(file)))
}
