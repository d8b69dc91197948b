//! The identity of a file independent of its name.

use super::Root;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use std::io;
use std::path::{Path, PathBuf};

/// Identity of a file or block device of this host. Two names with equal identity are the same file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A block device by its device number, whatever node it was opened through.
    Device {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A regular file by file system and inode. Hard links are equal; a deleted name does not matter.
    File {
        /// Major number of the file system's device.
        major: u32,
        /// Minor number of the file system's device.
        minor: u32,
        /// Inode number.
        inode: u64,
    },
}

impl Identity {
    /// The identity of the file at a path.
    ///
    /// # Errors
    /// Those of `statx`.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        // AT_STATX_DONT_SYNC: a network file system's server that does not answer must not block this.
        Ok(of(&statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO)?))
    }

    /// The identity of an open file.
    ///
    /// # Errors
    /// Those of `statx`.
    pub fn of_file(file: impl AsFd) -> io::Result<Self> {
        Ok(of(&statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::INO)?))
    }

    /// A block device's number as the kernel writes it, such as `259:0`; `None` for a file.
    pub fn number(self) -> Option<String> {
        match self {
            Self::Device { major, minor } => Some(format!("{major}:{minor}")),
            Self::File { .. } => None,
        }
    }

    /// Whether writing to one may change the other: they are equal, or one is a partition of the other.
    pub fn overlaps(self, root: &Root, other: Self) -> bool {
        let is_part_of = |part: Self, disk: Self| {
            let [part, disk] = [part, disk].map(|one| one.folder(root));
            part.zip(disk).is_some_and(|(part, disk)| part.starts_with(disk))
        };
        self == other || is_part_of(self, other) || is_part_of(other, self)
    }

    /// Whether it is this disk of `/sys/block`, or one of its partitions.
    pub fn is_of_disk(self, root: &Root, disk: &str) -> bool {
        let disk = root.path("sys/block").join(disk).canonicalize().ok();
        self.folder(root).zip(disk).is_some_and(|(folder, disk)| folder.starts_with(disk))
    }

    /// The sysfs folder of a block device.
    pub(super) fn folder(self, root: &Root) -> Option<PathBuf> {
        root.path("sys/dev/block").join(self.number()?).canonicalize().ok()
    }
}

/// The identity in the result of statx(2).
fn of(found: &Statx) -> Identity {
    if FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice {
        return Identity::Device { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
    }
    Identity::File { major: found.stx_dev_major, minor: found.stx_dev_minor, inode: found.stx_ino }
}
