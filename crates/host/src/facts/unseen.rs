//! What could not be seen, and what would show it.

use super::Host;
use crate::Tree;
use crate::pci::Reach as ConfigReach;
use crate::tree::Reach;
use serde::Serialize;

/// Something that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// What is therefore not known.
    pub what: String,
    /// The file, and why it could not be read.
    pub why: String,
    /// The privilege, or the file of a capture, that would show it.
    pub remedy: String,
}

/// Lists what matters; single attributes that a kernel does not have are no loss.
pub(super) fn list(tree: &Tree, host: &Host) -> Vec<Unseen> {
    [
        log(tree, host),
        config_space(host),
        memory_map(host),
        memory_types(tree, host),
        bounce_use(tree, host),
        drivers(host),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn unseen(what: &str, why: String, remedy: &str) -> Option<Unseen> {
    Some(Unseen { what: what.to_owned(), why, remedy: remedy.to_owned() })
}

fn log(tree: &Tree, host: &Host) -> Option<Unseen> {
    let what = "what the kernel said at boot and since: faults, windows, bounce buffers that ran out";
    match (host.log.file.is_empty(), host.reach) {
        (false, _) if host.log.complete_from_boot => None,
        (false, _) => unseen(
            "what the kernel said at boot",
            format!("{}: does not reach back to the start of the boot", host.log.file),
            "a log saved at boot: /var/log/dmesg, or journalctl -k",
        ),
        (true, Reach::Live) => {
            let ledger = tree.ledger();
            let why =
                ledger.why_missed("dev/kmsg").map_or_else(|| "not there".to_owned(), ToString::to_string);
            unseen(what, format!("/dev/kmsg: {why}"), "root (CAP_SYSLOG), or sysctl kernel.dmesg_restrict=0")
        }
        (true, Reach::Capture) => {
            unseen(what, "the capture holds no kernel log".to_owned(), "dmesg > var/log/dmesg in the capture")
        }
    }
}

fn config_space(host: &Host) -> Option<Unseen> {
    let short = host
        .adapters
        .iter()
        .map(|adapter| &adapter.function)
        .chain(host.bridges.values())
        .filter(|function| function.config_reach.is_none_or(|reach| reach == ConfigReach::Header))
        .filter(|function| function.capabilities.express.is_unknown())
        .count();
    let remedy = match host.reach {
        Reach::Live => "root (CAP_SYS_ADMIN)",
        Reach::Capture => "a capture made by root, or lspci -vvv in it",
    };
    let why = format!(
        "configuration space of {short} PCI function{}: only its first 64 bytes, or none, were readable",
        if short == 1 { "" } else { "s" }
    );
    (short > 0)
        .then(|| unseen("payload sizes, relaxed ordering, ACS, ATS, error registers", why, remedy))
        .flatten()
}

fn memory_map(host: &Host) -> Option<Unseen> {
    let memory = host.memory.as_ref()?;
    (memory.iomem.as_ref().is_some_and(|iomem| iomem.hidden))
        .then(|| {
            unseen(
                "where memory and reserved areas lie",
                "/proc/iomem: all addresses read as zero".to_owned(),
                "root (CAP_SYS_ADMIN)",
            )
        })
        .flatten()
}

fn memory_types(tree: &Tree, host: &Host) -> Option<Unseen> {
    host.memory.as_ref()?;
    if tree.exists("sys/kernel/debug/x86/pat_memtype_list") {
        return None;
    }
    let why = "/sys/kernel/debug/x86/pat_memtype_list: not readable or debugfs not mounted".to_owned();
    unseen(
        "memory types that drivers asked for (PAT)",
        why,
        "root, with debugfs mounted on /sys/kernel/debug",
    )
}

fn bounce_use(tree: &Tree, host: &Host) -> Option<Unseen> {
    if host.bounce.never.is_some() || tree.exists("sys/kernel/debug/swiotlb/io_tlb_used") {
        return None;
    }
    let why = "/sys/kernel/debug/swiotlb: not readable or not there".to_owned();
    unseen("how full the bounce buffers are", why, "root, with debugfs mounted on /sys/kernel/debug")
}

fn drivers(host: &Host) -> Option<Unseen> {
    (!host.shows_drivers && !host.adapters.is_empty())
        .then(|| {
            let why =
                "neither /sys/bus/pci/devices nor `Kernel driver in use` of lspci -k was there".to_owned();
            unseen("which driver owns which adapter", why, "iotoll capture on the host, or lspci -vvvk")
        })
        .flatten()
}
