//! What uses a disk, a partition, or a file.

use super::mounts::{self, Mount, unescaped};
use super::openers::{self, Opener};
use super::{Identity, Root, Unreadable, names, text};
use std::fmt;
use std::path::{Path, PathBuf};

/// A use of a disk that forbids unbinding or writing it. `device` is the name in `/dev` of the disk or partition, or
/// a file's path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Usage {
    /// A mounted file system.
    Mounted {
        /// The disk, partition or file.
        device: String,
        /// The mount point.
        at: String,
    },
    /// A swap area.
    Swap {
        /// The disk, partition or file.
        device: String,
    },
    /// A device built on it: RAID, LVM, encryption, a cache.
    Holder {
        /// The disk, partition or file.
        device: String,
        /// That device.
        holder: String,
    },
    /// A process, loop device or target has it open, without exclusive access.
    Open {
        /// The disk, partition or file.
        device: String,
        /// Who, in words.
        by: String,
    },
    /// Something has a file open whose name leads nowhere in this mount namespace; it may be this one.
    Perhaps {
        /// The disk, partition or file.
        device: String,
        /// Who, in words.
        by: String,
        /// That name.
        file: PathBuf,
    },
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |device: &str| Path::new("/dev").join(device).display().to_string();
        match self {
            Self::Mounted { device, at } => write!(formatter, "{} is mounted at {at}", path(device)),
            Self::Swap { device } => write!(formatter, "the kernel swaps to {}", path(device)),
            Self::Open { device, by } => write!(formatter, "{by} has {} open", path(device)),
            Self::Holder { device, holder } => {
                write!(formatter, "/dev/{holder} is made of {}", path(device))
            }
            Self::Perhaps { device, by, file } => {
                write!(formatter, "{by} has {:?} open, which may be {}", file, path(device))
            }
        }
    }
}

/// Mounts, swap areas and open files of a host.
#[derive(Debug, Default)]
pub(super) struct Found {
    mounts: Vec<Mount>,
    /// Swap devices and swap files.
    swaps: Vec<Swap>,
    open: Vec<Opener>,
}

#[derive(Debug)]
struct Swap {
    path: PathBuf,
    identity: Option<Identity>,
}

/// Reads the mounts, swap areas, and block devices opened by processes, as far as this process can see them.
pub(super) fn of_host(root: &Root) -> Result<Found, Unreadable> {
    let is_device = |path: &Path, identity: Option<Identity>| {
        path.to_string_lossy().starts_with("/dev/nvme") || matches!(identity, Some(Identity::Device { .. }))
    };
    let processes = openers::processes(root, is_device)?;
    let open = processes.into_iter().chain(openers::of_kernel(root)?).collect();
    Ok(Found { mounts: mounts::all(root)?, swaps: swaps(root)?, open })
}

/// Uses that forbid writing to the file or block device at a path. Readers are allowed.
pub(super) fn of_file(
    root: &Root,
    path: &Path,
    identity: Identity,
    bytes: u64,
) -> Result<Vec<Usage>, Unreadable> {
    if let Some(number) = identity.number() {
        return of_device(root, &number);
    }
    // A path in `/dev` is reported by its name, any other in full.
    let name = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let writers = openers::processes(root, |_, open| open == Some(identity))?;
    let mut usages: Vec<Usage> = Vec::new();
    if swaps(root)?.iter().any(|swap| swap.identity == Some(identity)) {
        usages.push(Usage::Swap { device: name.clone() });
    }
    for opener in writers.into_iter().chain(openers::of_kernel(root)?).filter(|opener| opener.writes) {
        if opener.identity == Some(identity) {
            usages.push(Usage::Open { device: name.clone(), by: opener.by });
        } else if opener.bytes_min.is_some_and(|least| least <= bytes) {
            usages.push(Usage::Perhaps { device: name.clone(), by: opener.by, file: opener.path });
        }
    }
    Ok(usages)
}

/// Uses of a block device by its number: of a disk with its partitions, or of a partition and its disk.
fn of_device(root: &Root, number: &str) -> Result<Vec<Usage>, Unreadable> {
    let found = of_host(root)?;
    let Ok(folder) = root.path("sys/dev/block").join(number).canonicalize() else { return Ok(Vec::new()) };
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(device) = name(&folder) else { return Ok(Vec::new()) };
    let mut usages = match folder.parent().filter(|_| folder.join("partition").exists()) {
        Some(disk) => {
            let mut usages = found.of_part(disk, &name(disk).unwrap_or_default())?;
            usages.extend(found.of_part(&folder, &device)?);
            usages
        }
        None => found.of_folder(&folder, &device)?,
    };
    // Processes that only read may go on reading.
    let readers: Vec<&str> =
        found.open.iter().filter(|opener| !opener.writes).map(|opener| opener.by.as_str()).collect();
    usages.retain(|usage| !matches!(usage, Usage::Open { by, .. } if readers.contains(&by.as_str())));
    Ok(usages)
}

/// The swap areas in `/proc/swaps`.
fn swaps(root: &Root) -> Result<Vec<Swap>, Unreadable> {
    let lines = text(&root.path("proc/swaps"))?.unwrap_or_default();
    // Skip the header line.
    let paths = lines.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescaped);
    let swap = |path: String| Swap {
        identity: Identity::of_path(&root.path(path.trim_start_matches('/'))).ok(),
        path: path.into(),
    };
    Ok(paths.map(swap).collect())
}

impl Found {
    /// Uses of a disk and its partitions.
    pub(super) fn of_disk(&self, root: &Root, disk: &str) -> Result<Vec<Usage>, Unreadable> {
        self.of_folder(&root.path("sys/block").join(disk), disk)
    }

    /// Uses of a block device and its partitions, by its folder in sysfs.
    fn of_folder(&self, folder: &Path, disk: &str) -> Result<Vec<Usage>, Unreadable> {
        let mut usages = self.of_part(folder, disk)?;
        for part in names(folder)?.into_iter().filter(|name| folder.join(name).join("partition").exists()) {
            usages.extend(self.of_part(&folder.join(&part), &part)?);
        }
        Ok(usages)
    }

    /// Uses of one block device, without its partitions.
    fn of_part(&self, folder: &Path, name: &str) -> Result<Vec<Usage>, Unreadable> {
        let number = text(&folder.join("dev"))?.unwrap_or_default();
        let device = Path::new("/dev").join(name);
        let is_it = |path: &Path, identity: Option<Identity>| {
            path == device || identity.and_then(Identity::number).is_some_and(|one| one == number)
        };
        let mut usages = Vec::new();
        // A file system on several devices, such as btrfs, has a device number of its own, and names one of its
        // devices.
        let mounts =
            self.mounts.iter().filter(|mount| mount.number == number || Path::new(&mount.source) == device);
        usages.extend(mounts.map(|mount| Usage::Mounted { device: name.to_owned(), at: mount.at.clone() }));
        if self.swaps.iter().any(|swap| is_it(&swap.path, swap.identity)) {
            usages.push(Usage::Swap { device: name.to_owned() });
        }
        let open = self.open.iter().filter(|opener| is_it(&opener.path, opener.identity));
        usages.extend(open.map(|opener| Usage::Open { device: name.to_owned(), by: opener.by.clone() }));
        let holders = names(&folder.join("holders"))?.into_iter();
        usages.extend(holders.map(|holder| Usage::Holder { device: name.to_owned(), holder }));
        Ok(usages)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A host with a disk `sda`, 8:0, and its partitions.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (number, folder) in [("8:0", "sda"), ("8:1", "sda/sda1"), ("8:2", "sda/sda2")] {
                tree.file(&format!("sys/block/{folder}/dev"), &format!("{number}\n"));
                fs::create_dir_all(tree.path("sys/dev/block")).unwrap();
                let link = tree.path("sys/dev/block").join(number);
                symlink(Path::new("../../block").join(folder), link).unwrap();
            }
            for part in ["sda1", "sda2"] {
                tree.file(&format!("sys/block/sda/{part}/partition"), "1\n");
            }
            tree
        }

        fn path(&self, inside: &str) -> PathBuf {
            self.0.path().join(inside)
        }

        fn file(&self, inside: &str, text: &str) {
            fs::create_dir_all(self.path(inside).parent().unwrap()).unwrap();
            fs::write(self.path(inside), text).unwrap();
        }

        fn usages(&self, number: &str) -> Vec<String> {
            let usages = of_device(&Root::at(self.0.path()), number).unwrap();
            usages.iter().map(ToString::to_string).collect()
        }
    }

    /// A use of a disk counts for its partitions and the other way round, but not from one partition to the other.
    #[test]
    fn uses_count_for_whatever_they_overlap() {
        let check = |change: &dyn Fn(&Tree), words: &str, of: [bool; 3]| {
            let tree = Tree::new();
            change(&tree);
            for (number, is_used) in ["8:0", "8:1", "8:2"].into_iter().zip(of) {
                let expected: Vec<String> = is_used.then(|| words.to_owned()).into_iter().collect();
                assert_eq!(tree.usages(number), expected, "{number}");
            }
        };
        let (whole, first) = ([true; 3], [true, true, false]);
        let mounts = "proc/self/mountinfo";
        check(&|_| (), "", [false; 3]);
        check(
            &|tree| tree.file(mounts, "9 1 8:0 / /a rw - xfs /dev/sda rw\n"),
            "/dev/sda is mounted at /a",
            whole,
        );
        check(&|tree| tree.file(mounts, "9 1 8:1 / /a rw - xfs x rw\n"), "/dev/sda1 is mounted at /a", first);
        check(
            &|tree| tree.file("proc/swaps", "Filename\n/dev/sda1 partition 1 0 -2\n"),
            "the kernel swaps to /dev/sda1",
            first,
        );
        check(
            &|tree| tree.file("sys/block/sda/sda1/holders/md0", ""),
            "/dev/md0 is made of /dev/sda1",
            first,
        );
        check(&|tree| tree.file("sys/block/sda/holders/dm-0", ""), "/dev/dm-0 is made of /dev/sda", whole);
        check(
            &|tree| tree.file("sys/block/loop0/loop/backing_file", "/dev/sda1\n"),
            "/dev/loop0 has /dev/sda1 open",
            first,
        );
        let other = "9 1 8:1 / /a rw - xfs x rw\n";
        let words = "/dev/sda1 is mounted at /a (in the mount namespace of process 77)";
        check(&|tree| tree.file("proc/77/mountinfo", other), words, first);
    }

    #[test]
    fn partitions_overlap_their_disk_alone() {
        let tree = Tree::new();
        let root = Root::at(tree.0.path());
        let [disk, first, second] = [0, 1, 2].map(|minor| Identity::Device { major: 8, minor });
        assert!(disk.overlaps(&root, first) && first.overlaps(&root, disk) && first.overlaps(&root, first));
        assert!(!first.overlaps(&root, second));
        assert!(first.is_of_disk(&root, "sda") && !first.is_of_disk(&root, "sdb"));
    }
}
