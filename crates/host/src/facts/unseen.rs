//! What could not be seen, and what would show it.
//!
//! A source is present, absent, unreadable (the system refused it), or refused (this program did not read it: too
//! large, no regular file, too many). Most hosts lack most of what is asked for, so that absence is told where
//! it matters only; every file that is there and was not read is told.

use super::{Host, source};
use crate::Tree;
use crate::pci::Reach as ConfigReach;
use crate::tree::{Reach, Refusal};
use serde::Serialize;
use std::collections::BTreeMap;

/// How a source was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Not there.
    Absent,
    /// There, and it does not hold all.
    Partial,
    /// There, and the system did not let it be read.
    Unreadable,
    /// There, and not read: too large, no regular file, or too many.
    Refused,
}

/// Files that were there and not read, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The first of them, from the host's root.
    pub file: String,
    /// How many there are.
    pub files: usize,
    /// Why.
    pub reason: Refusal,
}

/// Something that could not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// What is therefore not known.
    pub what: String,
    /// The file, and why it could not be read.
    pub why: String,
    /// The privilege, or the file of a capture, that would show it.
    pub remedy: String,
    /// How its source was found.
    pub state: State,
    /// Whether verdicts or findings may be wrong for it: a source that decides was there and was not read.
    pub decisive: bool,
    /// The files, where some were there.
    pub unread: Option<Unread>,
}

impl Unseen {
    /// Why verdicts may be wrong, in a few words: `proc/cmdline could not be read (permission denied)`. `None`
    /// if they are not for this.
    pub fn doubt(&self) -> Option<String> {
        if !self.decisive {
            return None;
        }
        let Some(Unread { file, files, reason }) = &self.unread else { return Some(self.why.clone()) };
        let more = if *files > 1 { format!(" and {} more files", files - 1) } else { String::new() };
        Some(format!("{file}{more} could not be read ({reason})"))
    }
}

/// Lists what matters; single attributes that a kernel does not have are no loss.
pub(super) fn list(tree: &Tree, host: &Host) -> Vec<Unseen> {
    let known = [
        log(host),
        options(host),
        functions(host),
        iommus(host),
        config_space(host),
        memory_map(host),
        memory_types(tree, host),
        bounce_use(tree, host),
        drivers(host),
    ];
    unread(host).into_iter().chain(known.into_iter().flatten()).collect()
}

const MEMTYPES: &str = "sys/kernel/debug/x86/pat_memtype_list";
const BOUNCE_USE: &str = "sys/kernel/debug/swiotlb/io_tlb_used";

/// Files that were there and not read, those alike together.
fn unread(host: &Host) -> Vec<Unseen> {
    let mut alike: BTreeMap<(String, String), Unseen> = BTreeMap::new();
    for (file, reason) in &host.unread {
        let told = source::told(file);
        let what = told.map_or_else(|| format!("what {file} tells"), |told| told.what.to_owned());
        let key = (what.clone(), reason.to_string());
        let one = alike.entry(key).or_insert_with(|| Unseen {
            what,
            why: String::new(),
            remedy: remedy(file, reason, host.reach),
            state: if reason.is_by_us() { State::Refused } else { State::Unreadable },
            decisive: false,
            unread: Some(Unread { file: file.clone(), files: 0, reason: reason.clone() }),
        });
        one.decisive |= told.is_none_or(|told| told.is_decisive);
        if let Some(unread) = &mut one.unread {
            unread.files += 1;
        }
    }
    let mut all: Vec<Unseen> = alike.into_values().collect();
    for one in &mut all {
        if let Some(Unread { file, files, reason }) = &one.unread {
            let more = if *files > 1 { format!(" and {} more files", files - 1) } else { String::new() };
            one.why = format!("{file}{more}: {reason}");
        }
    }
    all.sort_by_key(|one| !one.decisive);
    all
}

fn remedy(file: &str, reason: &Refusal, reach: Reach) -> String {
    match (reason, reach) {
        (Refusal::NoPermission, Reach::Live) if file == "dev/kmsg" => {
            "root (CAP_SYSLOG), or sysctl kernel.dmesg_restrict=0".to_owned()
        }
        (Refusal::NoPermission, Reach::Live) => "root".to_owned(),
        (Refusal::NoPermission, Reach::Capture) => {
            "a capture made by root; of a folder, a user who may read its files (chmod -R u+rX on a copy)"
                .to_owned()
        }
        (Refusal::TooLarge { bytes_max }, _) => format!("the same file cut to at most {bytes_max} bytes"),
        (Refusal::NotAFile, _) => "a regular file in its place".to_owned(),
        (Refusal::DanglingLink, _) => "a capture that holds what the link leads to".to_owned(),
        (Refusal::LinkLoop, _) => "a capture whose symbolic links end".to_owned(),
        (Refusal::UnknownMember { .. }, _) => {
            "the same archive written again by tar --format=pax, or a folder".to_owned()
        }
        (Refusal::TooMany { .. } | Refusal::BudgetSpent { .. }, _) => {
            "a capture of no more than one host has".to_owned()
        }
        (Refusal::Absent | Refusal::Other { .. }, _) => "what the system's words ask for".to_owned(),
    }
}

fn unseen(state: State, what: &str, why: String, remedy: &str) -> Option<Unseen> {
    let (what, remedy) = (what.to_owned(), remedy.to_owned());
    Some(Unseen { what, why, remedy, state, decisive: false, unread: None })
}

fn log(host: &Host) -> Option<Unseen> {
    let what = "what the kernel said at boot and since: faults, windows, bounce buffers that ran out";
    match (host.log.file.is_empty(), host.reach) {
        (false, _) if host.log.complete_from_boot => None,
        (false, _) => unseen(
            State::Partial,
            "what the kernel said at boot",
            format!("{}: does not reach back to the start of the boot", host.log.file),
            "a log saved at boot: /var/log/dmesg, or journalctl -k",
        ),
        // Where one was there and not read, that is told.
        (true, _)
            if host.unread.keys().any(|file| source::told(file).is_some_and(|told| told.what == what)) =>
        {
            None
        }
        (true, Reach::Live) => {
            let remedy = "a host that gives its log to this container, or dmesg > /var/log/dmesg";
            unseen(State::Absent, what, "/dev/kmsg: not there".to_owned(), remedy)
        }
        (true, Reach::Capture) => unseen(
            State::Absent,
            what,
            "the capture holds no kernel log".to_owned(),
            "dmesg > var/log/dmesg in the capture",
        ),
    }
}

fn options(host: &Host) -> Option<Unseen> {
    if host.command_line.is_some() || host.unread.contains_key("proc/cmdline") {
        return None;
    }
    let why = "neither proc/cmdline nor a log with the kernel's command line was there".to_owned();
    unseen(State::Absent, "the kernel's options", why, "proc/cmdline in the capture")
}

fn functions(host: &Host) -> Option<Unseen> {
    if !host.adapters.is_empty() || !host.bridges.is_empty() {
        return None;
    }
    unseen(
        State::Absent,
        "which PCI functions there are, and so the path of any adapter's DMA",
        "neither sys/bus/pci/devices nor the output of lspci was there, or they named none".to_owned(),
        "iotoll capture on the host, or lspci -vvvnnk as `lspci` in the capture",
    )
}

fn iommus(host: &Host) -> Option<Unseen> {
    let folders = ["sys/kernel/iommu_groups", "sys/class/iommu"];
    if host.iommus.visible || folders.iter().any(|folder| host.unread.contains_key(*folder)) {
        return None;
    }
    unseen(
        State::Absent,
        "which IOMMUs are in use, and which adapters they translate",
        "neither sys/kernel/iommu_groups nor sys/class/iommu was there".to_owned(),
        "iotoll capture on the host",
    )
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
    let what = "payload sizes, relaxed ordering, ACS, ATS, error registers";
    let found = (short > 0).then(|| unseen(State::Partial, what, why, remedy)).flatten();
    found.map(|found| withheld(host, found))
}

/// What the running kernel shows to root alone was there to be read; a capture holds what its maker could read.
fn withheld(host: &Host, unseen: Unseen) -> Unseen {
    Unseen { decisive: host.reach == Reach::Live, ..unseen }
}

fn memory_map(host: &Host) -> Option<Unseen> {
    let memory = host.memory.as_ref()?;
    (memory.iomem.as_ref().is_some_and(|iomem| iomem.hidden))
        .then(|| {
            unseen(
                State::Partial,
                "where memory and reserved areas lie",
                "/proc/iomem: all addresses read as zero".to_owned(),
                "root (CAP_SYS_ADMIN)",
            )
        })
        .flatten()
        .map(|found| withheld(host, found))
}

fn memory_types(tree: &Tree, host: &Host) -> Option<Unseen> {
    host.memory.as_ref()?;
    if tree.exists(MEMTYPES) || host.unread.contains_key(MEMTYPES) {
        return None;
    }
    let why =
        "/sys/kernel/debug/x86/pat_memtype_list: not there, debugfs is not mounted or not in the capture"
            .to_owned();
    unseen(
        State::Absent,
        "memory types that drivers asked for (PAT)",
        why,
        "root, with debugfs mounted on /sys/kernel/debug",
    )
}

fn bounce_use(tree: &Tree, host: &Host) -> Option<Unseen> {
    if host.bounce.never.is_some() || tree.exists(BOUNCE_USE) || host.unread.contains_key(BOUNCE_USE) {
        return None;
    }
    let why = "/sys/kernel/debug/swiotlb: not there".to_owned();
    unseen(
        State::Absent,
        "how full the bounce buffers are",
        why,
        "root, with debugfs mounted on /sys/kernel/debug",
    )
}

fn drivers(host: &Host) -> Option<Unseen> {
    (!host.shows_drivers && !host.adapters.is_empty())
        .then(|| {
            let why =
                "neither /sys/bus/pci/devices nor `Kernel driver in use` of lspci -k was there".to_owned();
            let remedy = "iotoll capture on the host, or lspci -vvvk";
            unseen(State::Absent, "which driver owns which adapter", why, remedy)
        })
        .flatten()
}
