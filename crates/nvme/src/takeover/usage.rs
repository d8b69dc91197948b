//! Who uses a disk of the kernel's, or a part of it.

use super::{Root, Unreadable, names, text};
use std::fmt;

/// A use that a disk is not to be taken away from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// A file system on it is mounted.
    Mounted {
        /// The disk or its partition.
        device: String,
        /// Where.
        at: String,
    },
    /// The kernel swaps to it.
    Swap {
        /// The disk or its partition.
        device: String,
    },
    /// Another device of the kernel's is made of it: RAID, LVM, encryption, a cache.
    Holder {
        /// The disk or its partition.
        device: String,
        /// The other device.
        holder: String,
    },
    /// Something has it open, or serves it to others, without keeping anybody else from it.
    Open {
        /// The disk or its partition.
        device: String,
        /// Who, in words.
        by: String,
    },
}

impl fmt::Display for Usage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => write!(formatter, "/dev/{device} is mounted at {at}"),
            Self::Swap { device } => write!(formatter, "the kernel swaps to /dev/{device}"),
            Self::Open { device, by } => write!(formatter, "{by} has /dev/{device} open"),
            Self::Holder { device, holder } => write!(formatter, "/dev/{holder} is made of /dev/{device}"),
        }
    }
}

/// What of a host is mounted, and swapped to.
#[derive(Debug, Default)]
pub(super) struct Found {
    mounts: Vec<Mount>,
    /// Devices by their files.
    swaps: Vec<String>,
    /// Files that are open, each with who has it in words.
    open: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// `259:0`, by which the kernel knows the device.
    number: String,
    source: String,
    at: String,
}

/// Reads what this process sees of it.
pub(super) fn of_host(root: &Root) -> Result<Found, Unreadable> {
    let mounts = text(&root.path("proc/self/mountinfo"))?.unwrap_or_default();
    let swaps = text(&root.path("proc/swaps"))?.unwrap_or_default();
    // The first line says what the columns are.
    let swaps = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).map(unescaped);
    let open = processes(root)?.into_iter().chain(loops(root)?).chain(targets(root)?).collect();
    Ok(Found { mounts: mounts.lines().filter_map(mount).collect(), swaps: swaps.collect(), open })
}

/// Devices that processes have open, as far as this one may look: of others' only root sees them.
fn processes(root: &Root) -> Result<Vec<(String, String)>, Unreadable> {
    let mut open = Vec::new();
    let all = root.path("proc");
    // This one has claims on what it is about to take.
    let own = std::process::id().to_string();
    let is_process = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own;
    for process in names(&all)?.into_iter().filter(is_process) {
        let folder = all.join(&process);
        // A process that has ended meanwhile, or may not be looked at.
        for file in names(&folder.join("fd")).unwrap_or_default() {
            let target = std::fs::read_link(folder.join("fd").join(file)).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            if target.starts_with("/dev/nvme") {
                let name = text(&folder.join("comm")).ok().flatten().unwrap_or_default();
                open.push((target, format!("process {process} ({name})")));
            }
        }
    }
    Ok(open)
}

/// Devices behind loop devices.
fn loops(root: &Root) -> Result<Vec<(String, String)>, Unreadable> {
    let blocks = root.path("sys/block");
    let mut open = Vec::new();
    for name in names(&blocks)?.into_iter().filter(|name| name.starts_with("loop")) {
        if let Some(file) = text(&blocks.join(&name).join("loop/backing_file"))? {
            open.push((file, format!("/dev/{name}")));
        }
    }
    Ok(open)
}

/// Devices that this host serves to others as an NVMe target.
fn targets(root: &Root) -> Result<Vec<(String, String)>, Unreadable> {
    let subsystems = root.path("sys/kernel/config/nvmet/subsystems");
    let mut open = Vec::new();
    for subsystem in names(&subsystems).unwrap_or_default() {
        let namespaces = subsystems.join(&subsystem).join("namespaces");
        for namespace in names(&namespaces).unwrap_or_default() {
            let file = text(&namespaces.join(&namespace).join("device_path")).ok().flatten();
            open.extend(file.map(|file| (file, format!("the NVMe target {subsystem}"))));
        }
    }
    Ok(open)
}

/// A line of `mountinfo` (`Documentation/filesystems/proc.rst`, 3.5). Optional fields end with a hyphen.
fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ');
    let number = words.nth(2)?.to_owned();
    let at = unescaped(words.nth(1)?);
    let source = unescaped(words.skip_while(|word| *word != "-").nth(2)?);
    Some(Mount { number, source, at })
}

/// Blanks and such are told by three octal digits behind a backslash.
fn unescaped(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind
            .get(..3)
            .filter(|digits| byte == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = octal
            .map(|digits| digits.iter().fold(0_u16, |value, digit| value << 3 | u16::from(digit - b'0')));
        bytes.push(value.map_or(byte, |value| value as u8));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Found {
    /// Uses of a disk and its partitions.
    pub(super) fn of_disk(&self, root: &Root, disk: &str) -> Result<Vec<Usage>, Unreadable> {
        let folder = root.path("sys/block").join(disk);
        let mut usages = Vec::new();
        let is_part = |name: &String| folder.join(name).join("partition").exists();
        let parts = names(&folder)?.into_iter().filter(is_part).map(|part| (folder.join(&part), part));
        for (folder, device) in [(folder.clone(), disk.to_owned())].into_iter().chain(parts) {
            let number = text(&folder.join("dev"))?.unwrap_or_default();
            // A file system of several devices, as btrfs, has a number of its own, and tells one of them by its file.
            let file = format!("/dev/{device}");
            let mounts = self.mounts.iter().filter(|mount| mount.number == number || mount.source == file);
            usages
                .extend(mounts.map(|mount| Usage::Mounted { device: device.clone(), at: mount.at.clone() }));
            if self.swaps.contains(&file) {
                usages.push(Usage::Swap { device: device.clone() });
            }
            let open = self.open.iter().filter(|(open, _)| *open == file);
            usages.extend(open.map(|(_, by)| Usage::Open { device: device.clone(), by: by.clone() }));
            let holders = names(&folder.join("holders"))?.into_iter();
            usages.extend(holders.map(|holder| Usage::Holder { device: device.clone(), holder }));
        }
        Ok(usages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mounts_are_read_with_their_blanks() {
        let line = r"36 35 259:3 / /mnt/a\040b rw,noatime shared:1 master:2 - ext4 /dev/nvme0n1p3 rw";
        let expected = Mount {
            number: "259:3".to_owned(),
            source: "/dev/nvme0n1p3".to_owned(),
            at: "/mnt/a b".to_owned(),
        };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount("36 35 259:3 / /mnt rw"), None);
        assert_eq!(unescaped(r"a\\0401\134\08"), r"a\ 1\\08");
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_not(line in ".*", word in r"[\\0-9a]*") {
            let _ = mount(&line);
            prop_assert!(unescaped(&word).len() <= 3 * word.len());
        }
    }
}
