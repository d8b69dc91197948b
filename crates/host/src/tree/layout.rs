//! Where captures keep things: the folder of the host's root, and the kernel's log.

use super::source::{Node, Source};

/// Places of the kernel's log, best first. sosreports name the file after the command.
pub(super) const KERNEL_LOGS: &[&str] = &[
    "var/log/dmesg",
    "sos_commands/kernel/dmesg",
    "sos_commands/kernel/dmesg_-T",
    "sos_commands/general/dmesg",
    "sos_commands/kernel/dmesg_now",
    "sos_commands/logs/journalctl_--no-pager_--dmesg",
    "sos_commands/logs/journalctl_--no-pager_-k",
    "dmesg",
    "var/log/dmesg.log",
    "var/log/kern.log",
    "var/log/boot.msg",
];

/// Folders by which a host's root is known.
const SIGNS: &[&str] = &["proc", "sys", "sos_commands"];

/// Folders looked into for a host's root, so that a directory of ten thousand captures stays cheap.
const FOLDERS_MAX: usize = 64;

/// The folder that holds the host's root: the top itself (empty), or one below it (`name/`), as in
/// archives of sosreports.
pub(super) fn host_root(source: &dyn Source) -> Option<String> {
    if is_host(source, "") {
        return Some(String::new());
    }
    let mut names = source.names("").ok()?;
    names.sort_unstable();
    let mut hosts = names.iter().take(FOLDERS_MAX).filter(|name| is_host(source, &format!("{name}/")));
    let host = hosts.next()?;
    // Two hosts side by side: choosing one would answer for the wrong machine.
    hosts.next().is_none().then(|| format!("{host}/"))
}

fn is_host(source: &dyn Source, prefix: &str) -> bool {
    SIGNS.iter().any(|sign| matches!(source.node(&format!("{prefix}{sign}")), Ok(Node::Folder)))
}
