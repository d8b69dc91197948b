//! Who has files and block devices open: processes, loop devices, and targets that serve them to other hosts.

use super::{Identity, Root, Unreadable, is_number, loop_device, names, text};
use std::path::{Path, PathBuf};

/// A file or a device that something has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opener {
    /// By the name that it was opened by.
    pub(super) path: PathBuf,
    /// Which it is, as far as that can be seen.
    pub(super) identity: Option<Identity>,
    /// Who, in words.
    pub(super) by: String,
    /// Whether it may write.
    pub(super) writes: bool,
    /// Of a loop device whose file can't be seen: the bytes that the file has at least.
    pub(super) bytes_min: Option<u64>,
}

impl Opener {
    /// What the kernel has opened, which may write to it.
    fn of_kernel(root: &Root, path: String, by: String) -> Self {
        let identity = Identity::of_path(&root.path(path.trim_start_matches('/'))).ok();
        Self { path: path.into(), identity, by, writes: true, bytes_min: None }
    }
}

/// Loop devices and targets.
pub(super) fn of_kernel(root: &Root) -> Result<Vec<Opener>, Unreadable> {
    Ok(loops(root)?.into_iter().chain(nvme_targets(root)).chain(scsi_targets(root)).collect())
}

/// What processes have open and `is_wanted`, as far as this one may look: of others' only root sees it.
pub(super) fn processes(
    root: &Root,
    is_wanted: impl Fn(&Path, Option<Identity>) -> bool,
) -> Result<Vec<Opener>, Unreadable> {
    let mut open = Vec::new();
    let all = root.path("proc");
    // This one has claims on what it is about to take.
    let own = std::process::id().to_string();
    for process in names(&all)?.into_iter().filter(|name| is_number(name) && *name != own) {
        let folder = all.join(&process);
        // A process that has ended meanwhile, or may not be looked at.
        for number in names(&folder.join("fd")).unwrap_or_default() {
            let link = folder.join("fd").join(&number);
            let path = std::fs::read_link(&link).unwrap_or_default();
            // Sockets, pipes and such have no path.
            let identity = path.is_absolute().then(|| Identity::of_path(&link).ok()).flatten();
            if is_wanted(&path, identity) {
                let name = text(&folder.join("comm")).ok().flatten().unwrap_or_default();
                let by = format!("process {process} ({name})");
                let writes = may_write(&folder.join("fdinfo").join(number));
                open.push(Opener { path, identity, by, writes, bytes_min: None });
            }
        }
    }
    Ok(open)
}

/// What is not known may write.
fn may_write(fdinfo: &Path) -> bool {
    let lines = text(fdinfo).ok().flatten().unwrap_or_default();
    let flags = lines.lines().find_map(|line| line.strip_prefix("flags:"));
    // Octal; the lowest two bits are 0 for reading alone (`O_ACCMODE`).
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_none_or(|flags| flags & 3 != 0)
}

/// Of loop devices. The kernel says by which name a file was opened; that name may be deleted, or another file's here, so the device is asked for the
/// file itself.
fn loops(root: &Root) -> Result<Vec<Opener>, Unreadable> {
    let blocks = root.path("sys/block");
    let mut open = Vec::new();
    for name in names(&blocks)?.into_iter().filter(|name| name.starts_with("loop")) {
        let folder = blocks.join(&name);
        let Some(file) = text(&folder.join("loop/backing_file"))? else { continue };
        let mut opener = Opener::of_kernel(root, file, format!("/dev/{name}"));
        match loop_device::backing_file(&root.path("dev").join(&name)) {
            Ok(identity) => opener.identity = Some(identity),
            // Then its name has to do, and where that leads nowhere, its size.
            Err(_) if opener.identity.is_none() => {
                let number = |file: &str| text(&folder.join(file)).ok().flatten()?.parse::<u64>().ok();
                let sectors = number("size").unwrap_or(0);
                let offset = number("loop/offset").unwrap_or(0);
                opener.bytes_min = Some(sectors.saturating_mul(512).saturating_add(offset));
            }
            Err(_) => {}
        }
        open.push(opener);
    }
    Ok(open)
}

/// What this host serves to others as an NVMe target.
fn nvme_targets(root: &Root) -> Vec<Opener> {
    let subsystems = root.path("sys/kernel/config/nvmet/subsystems");
    let mut open = Vec::new();
    for subsystem in names(&subsystems).unwrap_or_default() {
        let namespaces = subsystems.join(&subsystem).join("namespaces");
        for namespace in names(&namespaces).unwrap_or_default() {
            let file = text(&namespaces.join(&namespace).join("device_path")).ok().flatten();
            let by = format!("the NVMe target {subsystem}");
            open.extend(file.map(|file| Opener::of_kernel(root, file, by)));
        }
    }
    open
}

/// What this host serves to others by iSCSI, Fibre Channel and such (kernel: `drivers/target`).
fn scsi_targets(root: &Root) -> Vec<Opener> {
    let adapters = root.path("sys/kernel/config/target/core");
    let mut open = Vec::new();
    for adapter in names(&adapters).unwrap_or_default() {
        for device in names(&adapters.join(&adapter)).unwrap_or_default() {
            let file = text(&adapters.join(&adapter).join(&device).join("udev_path")).ok().flatten();
            let by = format!("the SCSI target {adapter}/{device}");
            open.extend(file.filter(|file| !file.is_empty()).map(|file| Opener::of_kernel(root, file, by)));
        }
    }
    open
}
