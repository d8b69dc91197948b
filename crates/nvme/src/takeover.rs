//! Finds the NVMe adapters of this host, checks who uses their disks, and moves an adapter from the kernel's driver
//! to `vfio-pci` and back.
//!
//! No adapter is unbound while anything uses its disks, and the [steps](Takeover::steps) can be shown before any is
//! done. A file or block device that is written instead of an adapter is [claimed](Claim) by the same rules.

mod candidate;
mod claim;
mod identity;
mod loop_device;
mod mounts;
mod openers;
mod refusal;
mod steps;
mod usage;

pub use candidate::{Candidate, KernelDisk};
pub use claim::{Claim, ClaimError, DiskNames};
pub use identity::Identity;
pub use refusal::{Accepted, Refusal};
pub use steps::{Step, Takeover, TakeoverError};
pub use usage::Usage;

use rustix::fs::OFlags;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The root of `/sys`, `/proc` and `/dev`: `/`, or a test's tree that looks like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Self {
        Self(PathBuf::from("/"))
    }
}

impl Root {
    /// A root at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// A path below the root.
    fn path(&self, inside: &str) -> PathBuf {
        self.0.join(inside)
    }

    /// The sysfs folder of a PCIe function.
    fn device(&self, address: &str) -> PathBuf {
        // An address with a slash could name another folder, so it names none.
        self.path("sys/bus/pci/devices").join(address.replace('/', "|"))
    }
}

/// A file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {}", file.display())]
pub struct Unreadable {
    /// The file.
    pub file: PathBuf,
    /// The error.
    pub source: io::Error,
}

/// Largest file that is read. Those of sysfs and procfs are far smaller.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The file's content without surrounding white space; `None` if it does not exist.
fn text(file: &Path) -> Result<Option<String>, Unreadable> {
    match read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Unreadable { file: file.to_owned(), source }),
    }
}

/// Reads a regular file. Refuses a pipe or device at once, instead of blocking.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = fs::File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    Ok(bytes)
}

/// Names in a folder, sorted; none if the folder does not exist.
fn names(folder: &Path) -> Result<Vec<String>, Unreadable> {
    let unreadable = |source| Unreadable { file: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(unreadable)
    };
    let mut names = entries.map(name).collect::<Result<Vec<_>, _>>()?;
    names.sort();
    Ok(names)
}

/// Whether a name in `/proc` is a process.
fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// The last component of a link's target; `None` if there is no link.
fn link_name(link: &Path) -> Option<String> {
    fs::read_link(link).ok()?.file_name().map(|name| name.to_string_lossy().into_owned())
}
