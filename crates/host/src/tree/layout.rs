//! Where captures keep things: the folder of the host's root, and the kernel's log.

use super::source::{Node, Refusal, Source};
use crate::redact::row_of;

/// Places of the kernel's log, best first. sosreports name the file after the command (sosreport/sos, plugins `kernel`, `logs`,
/// `general`); what dmesg prints reaches further than what was saved at boot.
pub(super) const KERNEL_LOGS: &[&str] = &[
    "sos_commands/kernel/dmesg",
    "sos_commands/kernel/dmesg_-T",
    "sos_commands/general/dmesg",
    "sos_commands/general/dmesg_now",
    "sos_commands/kernel/dmesg_now",
    "sos_commands/logs/journalctl_--no-pager_--dmesg",
    "sos_commands/logs/journalctl_--no-pager_-k",
    "sos_commands/logs/journalctl_--no-pager_--boot",
    "sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
    "sos_commands/logs/journalctl_--all_--this-boot_--no-pager",
    "var/log/dmesg",
    "dmesg",
    "var/log/dmesg.log",
    "var/log/kern.log",
    "var/log/boot.msg",
];

/// Whether a kernel log is a journal, which has messages of programs as well.
pub(super) fn is_journal(path: &str) -> bool {
    path.starts_with("sos_commands/logs/journalctl")
}

/// Folders by which a host's root is known.
const SIGNS: &[&str] = &["proc", "sys", "sos_commands"];

/// Folders looked into for a host's root, so that a directory of ten thousand captures stays cheap.
const FOLDERS_MAX: usize = 64;

/// The folders that hold a host's root: the top itself (empty), or those one below it (`name/`), as in archives of
/// sosreports. At most two: choosing one of several would answer for the wrong machine.
///
/// # Errors
/// If the top can't be listed.
pub(super) fn host_roots(source: &dyn Source) -> Result<Vec<String>, Refusal> {
    if is_host(source, "") {
        return Ok(vec![String::new()]);
    }
    let mut names = source.names("")?;
    names.sort_unstable();
    let folders = names.iter().take(FOLDERS_MAX).map(|name| format!("{name}/"));
    Ok(folders.filter(|folder| is_host(source, folder)).take(2).collect())
}

/// Whether the folder at `prefix` looks like the root of a host.
fn is_host(source: &dyn Source, prefix: &str) -> bool {
    let node = |path: &&str| source.node(&format!("{prefix}{path}"));
    let has_log = || KERNEL_LOGS.iter().filter(|log| log.contains('/')).any(|log| node(log).is_ok());
    SIGNS.iter().any(|sign| matches!(node(sign), Ok(Node::Folder))) || has_log()
}

/// Folders of a sosreport's commands whose output is read; the last is that of `contrib/sos/iotoll.py`, to which links at the top lead.
const SOS_FOLDERS: &[&str] = &["kernel", "general", "host", "pci", "hardware", "iotoll"];

/// Whether an inspection may ask for a path of an archive, whose host lies at its top or one folder below.
/// Archives of hosts are mostly logs and package lists, which would only fill the memory.
pub(super) fn is_wanted(path: &str) -> bool {
    let below = path.split_once('/').map_or("", |(_, rest)| rest);
    is_wanted_of_host(path) || is_wanted_of_host(below) || path.matches('/').count() <= 1 || is_of_probe(path)
}

/// Whether a path is that of a text in an archive of hw-probe, which keeps them in `hw.info/logs`.
fn is_of_probe(path: &str) -> bool {
    let mut names = path.split('/').skip(1);
    names.next() == Some("logs") && names.count() <= 1
}

/// Whether an inspection may ask for a path below the host's root.
fn is_wanted_of_host(path: &str) -> bool {
    let (top, rest) = path.split_once('/').unwrap_or((path, ""));
    let second = rest.split('/').next().unwrap_or_default();
    match top {
        "proc" => second.is_empty() || !second.bytes().all(|byte| byte.is_ascii_digit()),
        "sys" => true,
        // Other journals than those read as a log are large.
        "sos_commands" if second == "logs" => rest == "logs" || KERNEL_LOGS.contains(&path),
        "sos_commands" => second.is_empty() || SOS_FOLDERS.contains(&second),
        // Where sosreports keep the end of a journal that was too long.
        "sos_strings" => rest.strip_suffix(".tailed").is_some_and(is_journal_name),
        "usr" => ["pci.ids", "release"].iter().any(|end| rest.ends_with(end)),
        // Links lead to files of other names.
        "etc" => row_of(path).is_some() || ["release", "_version"].iter().any(|end| rest.ends_with(end)),
        "var" => matches!(rest, "" | "log") || rest.strip_prefix("log/").is_some_and(is_log_name),
        _ => false,
    }
}

/// Whether the file of this name in `sos_commands` is a journal that is read.
fn is_journal_name(rest: &str) -> bool {
    rest.starts_with("logs/") && KERNEL_LOGS.iter().any(|log| log.strip_prefix("sos_commands/") == Some(rest))
}

/// Kernel logs, and what links of these names lead to.
fn is_log_name(name: &str) -> bool {
    ["dmesg", "kern", "boot"].iter().any(|start| name.starts_with(start))
}
