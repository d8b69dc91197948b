//! Files whose names tell what they hold, as reporting tools and people name copies of a host's files.
//!
//! Kernel logs and the output of lspci are known by their lines. Tables such as `/proc/interrupts` are not: hw-probe saves
//! that one as `interrupts`, apport as `ProcInterrupts.txt`, people as `proc_interrupts.txt`.

use super::HOST_NAME;

/// What a file is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// A copy of this file of the host.
    File(&'static str),
    /// A log or listing that looks like one of the kernel or of lspci, and is none.
    Foreign,
}

/// Names without `Proc` before them and an ending behind them, what a line of such a file begins with, and the file.
const FILES: [(&str, &str, &str); 9] = [
    ("cmdline", "", "proc/cmdline"),
    ("cpuinfo", "", "proc/cpuinfo"),
    ("hostname", "", HOST_NAME),
    ("interrupts", " ", "proc/interrupts"),
    ("iomem", "0", "proc/iomem"),
    ("meminfo", "MemTotal:", "proc/meminfo"),
    ("mtrr", "reg", "proc/mtrr"),
    ("version", "Linux version ", "proc/version"),
    ("os-release", "", "etc/os-release"),
];

/// What the file at `path` is by its name, where its text begins as that file does.
pub(super) fn by_name(path: &str, text: &str) -> Option<Named> {
    let name = path.rsplit('/').next()?.to_ascii_lowercase();
    // Logs of the X server have times in brackets as well; hwinfo and udev quote messages and addresses.
    if ["xorg", "hwinfo", "udev"].iter().any(|start| name.starts_with(start)) {
        return Some(Named::Foreign);
    }
    let stem = [".txt", ".log", ".gz", ".xz"]
        .iter()
        .fold(name.as_str(), |stem, end| stem.strip_suffix(end).unwrap_or(stem));
    let stem = stem.strip_prefix("proc").map_or(stem, |rest| rest.trim_start_matches(['_', '-', '.']));
    let stem = stem.strip_suffix("minimal").unwrap_or(stem);
    let (_, start, file) = FILES.iter().find(|(name, ..)| *name == stem)?;
    // A command that failed has left its message.
    let is_name = *file != HOST_NAME || text.split_whitespace().count() == 1;
    (is_name && text.starts_with(start)).then_some(Named::File(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_and_of_people() {
        let file = |name: &str, text: &str| by_name(name, text);
        assert_eq!(file("hw.info/logs/interrupts", "    CPU0\n"), Some(Named::File("proc/interrupts")));
        assert_eq!(file("ProcCpuinfoMinimal.txt", "processor\t: 0\n"), Some(Named::File("proc/cpuinfo")));
        assert_eq!(file("proc_iomem.txt", "00000000-0fff : Reserved\n"), Some(Named::File("proc/iomem")));
        assert_eq!(file("version", "1.2.3\n"), None);
        assert_eq!(file("hostname.txt", "web01\n"), Some(Named::File("etc/hostname")));
        assert_eq!(file("hostname", "bash: hostname: command not found\n"), None);
        assert_eq!(file("logs/xorg.log.1", ""), Some(Named::Foreign));
        assert_eq!(file("dmesg.txt", ""), None);
    }
}
