//! Exclusive write access to a file or block device.

use super::candidate::disk_name;
use super::{Identity, Root, Unreadable, Usage, names, text, usage};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file or block device that nothing else uses, opened for writing and locked.
///
/// - A block device is opened with `O_EXCL`. The kernel refuses that while the device, its disk or one of its
///   partitions is mounted in any mount namespace, used as swap, or held by md, dm or another exclusive opener. It
///   refuses those in turn while the claim exists.
/// - Both kinds of locks are taken. systemd-udevd and util-linux (`--lock`) respect `flock` ("Locking Block Device
///   Access", systemd.io); QEMU holds `fcntl` locks on images of running machines (`block/file-posix.c`).
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
    identity: Identity,
}

/// Why a file or block device can't be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// Something uses it.
    #[error("{}", join_usages(usages))]
    InUse {
        /// The uses found.
        usages: Vec<Usage>,
    },
    /// The kernel refuses to open it exclusively.
    #[error(
        "{} is in use: the kernel refuses to open it exclusively. It, a part of it or its disk is mounted, swapped to, part of another device, or held \
         by another program",
        path.display()
    )]
    Busy {
        /// The path.
        path: PathBuf,
    },
    /// Another program has locked it.
    #[error("{} is in use: another program has locked it, as QEMU does with the images of running machines", path.display())]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// It is read-only.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// It is a folder, a terminal or the like.
    #[error("{} is neither a file nor a block device", path.display())]
    OtherKind {
        /// The path.
        path: PathBuf,
    },
    /// The path names another file than before.
    #[error("{} was replaced by another file during the check", path.display())]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// It can't be opened for writing.
    #[error("can't open {} for writing", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Its users can't be determined.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// All uses in one sentence.
fn join_usages(usages: &[Usage]) -> String {
    let words: Vec<String> = usages.iter().map(ToString::to_string).collect();
    format!("in use: {}", words.join("; "))
}

/// Names of a block device's disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskNames {
    /// Serial number, for a whole disk.
    pub serial: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// An NVMe namespace whose subsystem may have further controllers, in this host or another.
    pub may_be_shared: bool,
}

impl Claim {
    /// Claims an existing file or block device that nobody uses.
    ///
    /// # Errors
    /// [`ClaimError`]
    pub fn of(root: &Root, path: &Path) -> Result<Self, ClaimError> {
        let failed = |source| ClaimError::Open { path: path.to_owned(), source };
        let found = path.metadata().map_err(failed)?;
        let is_device = found.file_type().is_block_device();
        if !is_device && !found.is_file() {
            return Err(ClaimError::OtherKind { path: path.to_owned() });
        }
        let identity = Identity::of_path(path).map_err(failed)?;
        // Check first: naming the users says more than the kernel's EBUSY.
        expect_unused(root, path, identity, found.len())?;
        if is_read_only(root, identity)? {
            return Err(ClaimError::ReadOnly { path: path.to_owned() });
        }
        let file = open(path, is_device)?;
        if Identity::of_file(&file).map_err(failed)? != identity {
            return Err(ClaimError::Replaced { path: path.to_owned() });
        }
        lock(&file, path)?;
        // Check again: loop devices and targets ignore locks, so one may have opened it before the lock.
        expect_unused(root, path, identity, found.len())?;
        Ok(Self { path: path.to_owned(), file, identity })
    }

    /// The identity of the file.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The path and the open file. The claim lasts until the file is closed.
    pub fn into_parts(self) -> (PathBuf, File) {
        (self.path, self.file)
    }

    /// Names of the block device's disk; none for a file.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn disk_names(&self, root: &Root) -> Result<DiskNames, Unreadable> {
        DiskNames::of(root, self.identity)
    }
}

impl DiskNames {
    /// The names of a block device's disk; none for a file.
    fn of(root: &Root, identity: Identity) -> Result<Self, Unreadable> {
        let Some(folder) = identity.folder(root) else { return Ok(Self::default()) };
        let is_part = folder.join("partition").exists();
        let disk = folder.parent().filter(|_| is_part).unwrap_or(&folder);
        let first = |files: &[&str]| {
            files
                .iter()
                .find_map(|file| text(&disk.join(file)).ok().flatten().filter(|text| !text.is_empty()))
        };
        // virtio, NVMe and MMC have an attribute. SCSI has VPD page 0x80, with a header of four bytes (SPC, Unit
        // Serial Number).
        let page = || {
            let page = super::read(&disk.join("device/vpd_pg80")).ok()?;
            let serial = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
            (!serial.is_empty()).then_some(serial)
        };
        let serial = first(&["serial", "device/serial"]).or_else(page).filter(|_| !is_part);
        let name = disk.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self {
            serial,
            model: first(&["device/model", "device/name", "dm/name"]),
            may_be_shared: has_paths(root, &name)?,
        })
    }
}

/// Whether the disk's subsystem allows several controllers: the kernel then creates path devices such as `nvme0c1n1`
/// (kernel: `nvme_mpath_alloc_disk`).
fn has_paths(root: &Root, disk: &str) -> Result<bool, Unreadable> {
    let controllers = root.path("sys/class/nvme");
    for controller in names(&controllers)? {
        let is_path = |name: &String| name != disk && disk_name(name).as_deref() == Some(disk);
        if names(&controllers.join(controller))?.iter().any(is_path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fails if the file or block device is in use.
fn expect_unused(root: &Root, path: &Path, identity: Identity, bytes: u64) -> Result<(), ClaimError> {
    let usages = usage::of_file(root, path, identity, bytes)?;
    if usages.is_empty() { Ok(()) } else { Err(ClaimError::InUse { usages }) }
}

/// Whether it is a read-only block device.
fn is_read_only(root: &Root, identity: Identity) -> Result<bool, Unreadable> {
    let Some(folder) = identity.folder(root) else { return Ok(false) };
    Ok(text(&folder.join("ro"))?.as_deref() == Some("1"))
}

/// Opens it for writing; a block device exclusively.
fn open(path: &Path, is_device: bool) -> Result<File, ClaimError> {
    // O_NONBLOCK: if the file was replaced by a pipe, opening it must not wait for a reader.
    let exclusive = if is_device { OFlags::EXCL } else { OFlags::empty() };
    let flags = exclusive | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path);
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy | io::ErrorKind::ExecutableFileBusy => {
            ClaimError::Busy { path: path.to_owned() }
        }
        io::ErrorKind::ReadOnlyFilesystem => ClaimError::ReadOnly { path: path.to_owned() },
        _ => ClaimError::Open { path: path.to_owned(), source },
    })
}

/// Takes both kinds of locks, where the file system supports them.
fn lock(file: &File, path: &Path) -> Result<(), ClaimError> {
    let taken = [
        flock(file, FlockOperation::NonBlockingLockExclusive),
        fcntl_lock(file, FlockOperation::NonBlockingLockExclusive),
    ];
    for result in taken {
        match result {
            Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Err(ClaimError::Locked { path: path.to_owned() });
            }
            Err(error) => {
                return Err(ClaimError::Open { path: path.to_owned(), source: error.into() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn disks_are_called_by_their_serial_numbers_and_partitions_are_not() {
        let check = |files: &[(&str, &str)], expected: [Option<&str>; 2], may_be_shared: bool| {
            let folder = tempfile::tempdir().unwrap();
            let file = |inside: &str, text: &str| {
                let path = folder.path().join(inside);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            file("sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
            files.iter().for_each(|(inside, text)| file(inside, text));
            fs::create_dir_all(folder.path().join("sys/dev/block")).unwrap();
            for (number, to) in [("259:0", "nvme0n1"), ("259:1", "nvme0n1/nvme0n1p1")] {
                let link = folder.path().join("sys/dev/block").join(number);
                symlink(Path::new("../../block").join(to), link).unwrap();
            }
            let names = |minor: u32| {
                DiskNames::of(&Root::at(folder.path()), Identity::Device { major: 259, minor }).unwrap()
            };
            let [serial, model] = expected.map(|name| name.map(str::to_owned));
            assert_eq!(names(0), DiskNames { serial, model: model.clone(), may_be_shared });
            assert_eq!(names(1), DiskNames { serial: None, model, may_be_shared });
        };
        check(&[], [None, None], false);
        let nvme =
            [("sys/block/nvme0n1/device/serial", "S4EV  \n"), ("sys/block/nvme0n1/device/model", "Disk\n")];
        check(&nvme, [Some("S4EV"), Some("Disk")], false);
        check(&[("sys/block/nvme0n1/serial", "virtio-1")], [Some("virtio-1"), None], false);
        check(
            &[("sys/block/nvme0n1/device/vpd_pg80", "\0\u{1}\0\u{8}  Z1D2  ")],
            [Some("Z1D2"), None],
            false,
        );
        check(&[("sys/class/nvme/nvme1/nvme0c1n1/uevent", "")], [None, None], true);
        check(&[("sys/class/nvme/nvme0/nvme0n1/uevent", "")], [None, None], false);
    }
}
