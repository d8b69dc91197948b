//! What has files and block devices open: processes, loop devices, and NVMe and SCSI targets.

use super::{Identity, Root, Unreadable, is_number, loop_device, names, text};
use std::path::{Path, PathBuf};

/// An open file or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opener {
    /// The path it was opened by.
    pub(super) path: PathBuf,
    /// Its identity, if it can be determined.
    pub(super) identity: Option<Identity>,
    /// Who has it open, in words.
    pub(super) by: String,
    /// Whether it may be written.
    pub(super) writes: bool,
    /// For a loop device whose file can't be identified: the file's least size in bytes.
    pub(super) bytes_min: Option<u64>,
}

impl Opener {
    /// A file opened by the kernel, which may write to it.
    fn of_kernel(root: &Root, path: String, by: String) -> Self {
        let identity = Identity::of_path(&root.path(path.trim_start_matches('/'))).ok();
        Self { path: path.into(), identity, by, writes: true, bytes_min: None }
    }
}

/// Files opened by loop devices and targets.
pub(super) fn of_kernel(root: &Root) -> Result<Vec<Opener>, Unreadable> {
    Ok(loops(root)?.into_iter().chain(nvme_targets(root)).chain(scsi_targets(root)).collect())
}

/// Files that processes have open and `is_wanted` selects. Without root, other users' processes are not seen.
pub(super) fn processes(
    root: &Root,
    is_wanted: impl Fn(&Path, Option<Identity>) -> bool,
) -> Result<Vec<Opener>, Unreadable> {
    let mut open = Vec::new();
    let all = root.path("proc");
    // Skip this process: it has claims itself.
    let own = std::process::id().to_string();
    for process in names(&all)?.into_iter().filter(|name| is_number(name) && *name != own) {
        let folder = all.join(&process);
        // Skip a process that has ended or may not be read.
        for number in names(&folder.join("fd")).unwrap_or_default() {
            let link = folder.join("fd").join(&number);
            let path = std::fs::read_link(&link).unwrap_or_default();
            // Sockets and pipes have no absolute path.
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

/// Whether the open mode allows writing; true if it can't be read.
fn may_write(fdinfo: &Path) -> bool {
    let lines = text(fdinfo).ok().flatten().unwrap_or_default();
    let flags = lines.lines().find_map(|line| line.strip_prefix("flags:"));
    // Octal; O_ACCMODE is the lowest two bits, 0 for read-only.
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_none_or(|flags| flags & 3 != 0)
}

/// Files behind loop devices. sysfs gives the name a file was opened by, which may be deleted or name another file
/// here. So ask the device for the file's identity.
fn loops(root: &Root) -> Result<Vec<Opener>, Unreadable> {
    let blocks = root.path("sys/block");
    let mut open = Vec::new();
    for name in names(&blocks)?.into_iter().filter(|name| name.starts_with("loop")) {
        let folder = blocks.join(&name);
        let Some(file) = text(&folder.join("loop/backing_file"))? else { continue };
        let mut opener = Opener::of_kernel(root, file, format!("/dev/{name}"));
        match loop_device::backing_file(&root.path("dev").join(&name)) {
            Ok(identity) => opener.identity = Some(identity),
            // Without that, use the name; if the name leads nowhere, the size.
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

/// Devices and files exported by this host's NVMe target.
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

/// Devices and files exported by iSCSI, Fibre Channel and other SCSI targets (kernel: `drivers/target`).
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
