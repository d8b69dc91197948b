//! A file or a block device that this process alone writes, for as long as it has it.

use super::candidate::disk_name;
use super::{Identity, Root, Unreadable, Usage, names, text, usage};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opened for writing, against which nothing speaks, and locked.
///
/// - A block device is opened with `O_EXCL`: the kernel refuses that while it, a part of it or the disk that it is a part of is mounted in any mount
///   namespace, swapped to, or held by md, dm or another opener with `O_EXCL`; and refuses those as long as this exists.
/// - Both kinds of locks are taken: those of `flock`, by which systemd-udevd and util-linux (`--lock`) leave a device alone ("Locking Block Device
///   Access", systemd.io), and those of `fcntl`, by which QEMU keeps the images of running machines (`block/file-posix.c`).
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
    identity: Identity,
}

/// Why a file or a block device is not written.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Something uses it.
    #[error("{}", all(usages))]
    InUse {
        /// What.
        usages: Vec<Usage>,
    },
    /// The kernel says that somebody has it.
    #[error(
        "{} is in use: the kernel refuses to open it exclusively. It, a part of it or its disk is mounted, swapped to, part of another device, or held \
         by another program",
        path.display()
    )]
    Busy {
        /// Its path.
        path: PathBuf,
    },
    /// A program has locked it.
    #[error("{} is in use: a program has locked it, as QEMU locks the images of running machines", path.display())]
    Locked {
        /// Its path.
        path: PathBuf,
    },
    /// It can't be written.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// Its path.
        path: PathBuf,
    },
    /// It is a folder, a terminal, or something else without blocks.
    #[error("{} is neither a file nor a block device", path.display())]
    OtherKind {
        /// Its path.
        path: PathBuf,
    },
    /// It was replaced between two looks at it.
    #[error("{} was replaced by another file meanwhile", path.display())]
    Replaced {
        /// Its path.
        path: PathBuf,
    },
    /// It can't be opened.
    #[error("can't open {} for writing", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Who uses it can't be said.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

fn all(usages: &[Usage]) -> String {
    let words: Vec<String> = usages.iter().map(ToString::to_string).collect();
    format!("in use: {}", words.join("; "))
}

/// How a block device's disk is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskNames {
    /// Its serial number, if it is a whole disk.
    pub serial: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// It is an NVMe namespace behind a subsystem that may have other controllers, of this host or of others.
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
        // Before it is opened: what is told of its users says more than that they are there.
        expect_unused(root, path, identity, found.len())?;
        if is_read_only(root, identity)? {
            return Err(ClaimError::ReadOnly { path: path.to_owned() });
        }
        let file = open(path, is_device)?;
        if Identity::of_file(&file).map_err(failed)? != identity {
            return Err(ClaimError::Replaced { path: path.to_owned() });
        }
        lock(&file, path)?;
        // Loop devices and targets mind no lock.
        expect_unused(root, path, identity, found.len())?;
        Ok(Self { path: path.to_owned(), file, identity })
    }

    /// Which file it is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The path and the open file, which keeps the claim.
    pub fn into_parts(self) -> (PathBuf, File) {
        (self.path, self.file)
    }

    /// How a block device is called besides its path; nothing for a file.
    ///
    /// # Errors
    /// [`Unreadable`]
    pub fn disk_names(&self, root: &Root) -> Result<DiskNames, Unreadable> {
        DiskNames::of(root, self.identity)
    }
}

impl DiskNames {
    fn of(root: &Root, identity: Identity) -> Result<Self, Unreadable> {
        let Some(folder) = identity.folder(root) else { return Ok(Self::default()) };
        let is_part = folder.join("partition").exists();
        let disk = folder.parent().filter(|_| is_part).unwrap_or(&folder);
        let first = |files: &[&str]| {
            files
                .iter()
                .find_map(|file| text(&disk.join(file)).ok().flatten().filter(|text| !text.is_empty()))
        };
        // virtio, NVMe and MMC; SCSI has a page of it, four bytes of which are its head (SPC, Unit Serial Number).
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

/// Whether an NVMe disk is one of a subsystem for several controllers: then the kernel has a path to it by each, as `nvme0c1n1` (kernel:
/// `nvme_mpath_alloc_disk`).
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

fn expect_unused(root: &Root, path: &Path, identity: Identity, bytes: u64) -> Result<(), ClaimError> {
    let usages = usage::of_file(root, path, identity, bytes)?;
    if usages.is_empty() { Ok(()) } else { Err(ClaimError::InUse { usages }) }
}

fn is_read_only(root: &Root, identity: Identity) -> Result<bool, Unreadable> {
    let Some(folder) = identity.folder(root) else { return Ok(false) };
    Ok(text(&folder.join("ro"))?.as_deref() == Some("1"))
}

fn open(path: &Path, is_device: bool) -> Result<File, ClaimError> {
    // Of a file that is replaced by a pipe meanwhile nobody waits for the other end.
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

/// Takes both kinds of locks, as far as the file system has them.
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
