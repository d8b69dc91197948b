//! What a file is, whatever its name: two names with one identity are one file.

use super::Root;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use std::io;
use std::path::{Path, PathBuf};

/// A file of this host, or a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// A block device, by its numbers: all of its names and nodes lead to it.
    Device {
        /// Of its driver.
        major: u32,
        /// The device.
        minor: u32,
    },
    /// A file of a file system, by that and its inode: hard links, and what is left of a deleted name, lead to it.
    File {
        /// Of the file system's device.
        major: u32,
        /// Of the file system's device.
        minor: u32,
        /// Within the file system.
        inode: u64,
    },
}

impl Identity {
    /// What a name leads to.
    ///
    /// # Errors
    /// Those of `statx`.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        // No server of a network's file system is asked: one that does not answer would hold this up.
        Ok(of(&statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO)?))
    }

    /// What is open.
    ///
    /// # Errors
    /// Those of `statx`.
    pub fn of_file(file: impl AsFd) -> io::Result<Self> {
        Ok(of(&statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE | StatxFlags::INO)?))
    }

    /// A block device's numbers as the kernel writes them, `259:0`; nothing for a file.
    pub fn number(self) -> Option<String> {
        match self {
            Self::Device { major, minor } => Some(format!("{major}:{minor}")),
            Self::File { .. } => None,
        }
    }

    /// Whether writing to one changes the other: it is the same, or a partition of it.
    pub fn overlaps(self, root: &Root, other: Self) -> bool {
        let is_part_of = |part: Self, disk: Self| {
            let [part, disk] = [part, disk].map(|one| one.folder(root));
            part.zip(disk).is_some_and(|(part, disk)| part.starts_with(disk))
        };
        self == other || is_part_of(self, other) || is_part_of(other, self)
    }

    /// Whether it is a disk of a name in `/sys/block`, or a part of that.
    pub fn is_of_disk(self, root: &Root, disk: &str) -> bool {
        let disk = root.path("sys/block").join(disk).canonicalize().ok();
        self.folder(root).zip(disk).is_some_and(|(folder, disk)| folder.starts_with(disk))
    }

    /// Where the kernel tells of a block device.
    pub(super) fn folder(self, root: &Root) -> Option<PathBuf> {
        root.path("sys/dev/block").join(self.number()?).canonicalize().ok()
    }
}

fn of(found: &Statx) -> Identity {
    if FileType::from_raw_mode(found.stx_mode.into()) == FileType::BlockDevice {
        return Identity::Device { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
    }
    Identity::File { major: found.stx_dev_major, minor: found.stx_dev_minor, inode: found.stx_ino }
}
