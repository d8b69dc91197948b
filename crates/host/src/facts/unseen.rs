//! Facts that are unknown because their source was missing or unreadable, and how to provide it.
//!
//! A source is present, absent, unreadable (the system denied access), or refused (this program did not read it: too
//! large, no regular file, too many). Every host lacks many files, so an absent one is listed only if it matters.
//! Every file that exists and was not read is listed.

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
pub enum ReadState {
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
    pub state: ReadState,
    /// Whether verdicts or findings may be wrong: a source that they depend on exists and was not read.
    pub decisive: bool,
    /// The files, where some were there.
    pub unread: Option<Unread>,
}

impl Unseen {
    /// Why verdicts may be wrong, such as `proc/cmdline could not be read (permission denied)`. `None` if this does
    /// not affect them.
    pub fn doubt(&self) -> Option<String> {
        if !self.decisive {
            return None;
        }
        let Some(Unread { file, files, reason }) = &self.unread else { return Some(self.why.clone()) };
        let more = if *files > 1 { format!(" and {} more files", files - 1) } else { String::new() };
        Some(format!("{file}{more} could not be read ({reason})"))
    }
}

/// Lists unknown facts that matter. Single attributes that a kernel does not have are left out.
pub(super) fn list(tree: &Tree, host: &Host) -> Vec<Unseen> {
    let known = [
        log(host),
        earlier_boots(host),
        options(host),
        functions(host),
        iommus(host),
        config_space(host),
        memory_map(host),
        memory_types(tree, host),
        areas(host),
        bounce_use(tree, host),
        drivers(host),
    ];
    list_unread(host).into_iter().chain(known.into_iter().flatten()).collect()
}

const MEMTYPES: &str = "sys/kernel/debug/x86/pat_memtype_list";
const BOUNCE_USE: &str = "sys/kernel/debug/swiotlb/io_tlb_used";

/// Files that exist and could not be read. Files with the same fact and the same reason are one entry.
fn list_unread(host: &Host) -> Vec<Unseen> {
    let mut alike: BTreeMap<(String, String), Unseen> = BTreeMap::new();
    for (file, reason) in &host.unread {
        let source = source::find_source(file);
        let what = match (source, reason) {
            (Some(source), _) => source.what.to_owned(),
            // A folder may have thousands of them.
            (None, Refusal::TooDeep { .. }) => "what texts in deeper folders tell".to_owned(),
            (None, _) => format!("what {file} tells"),
        };
        let key = (what.clone(), reason.to_string());
        let one = alike.entry(key).or_insert_with(|| Unseen {
            what,
            why: String::new(),
            remedy: remedy(file, reason, host.reach),
            state: if reason.is_by_us() { ReadState::Refused } else { ReadState::Unreadable },
            decisive: false,
            unread: Some(Unread { file: file.clone(), files: 0, reason: reason.clone() }),
        });
        let is_decisive = source.is_none_or(|source| source.is_decisive);
        one.decisive |= is_decisive && !reason.is_left_out();
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

/// What would make the file readable.
fn remedy(file: &str, reason: &Refusal, reach: Reach) -> String {
    match (reason, reach) {
        (Refusal::NoPermission, Reach::Live) if file == "dev/kmsg" => {
            "root (CAP_SYSLOG), or sysctl kernel.dmesg_restrict=0".to_owned()
        }
        (Refusal::NoPermission, Reach::Live) => "root".to_owned(),
        (Refusal::Other { .. }, Reach::Live) if file == "rdma_resource" => {
            "a kernel that answers `rdma resource`".to_owned()
        }
        (Refusal::NoPermission, Reach::Capture) => {
            "a capture made by root; of a folder, a user who may read its files (chmod -R u+rX on a copy)"
                .to_owned()
        }
        (Refusal::TooLarge { bytes_max }, _) => format!("the same file cut to at most {bytes_max} bytes"),
        (Refusal::NotAFile, _) => "a regular file in its place".to_owned(),
        (Refusal::DanglingLink, _) => "a capture that holds what the link leads to".to_owned(),
        (Refusal::TooDeep { .. }, _) => "an inspection of that folder alone".to_owned(),
        (Refusal::LinkLoop, _) => "a capture whose symbolic links end".to_owned(),
        (Refusal::UnknownMember { .. }, _) => {
            "the same archive written again by tar --format=pax, or a folder".to_owned()
        }
        (Refusal::TooMany { .. } | Refusal::BudgetSpent { .. }, _) => {
            "a capture of no more than one host has".to_owned()
        }
        (Refusal::AnotherIsRead | Refusal::EarlierBoot, _) => "an inspection of it alone".to_owned(),
        (Refusal::Absent | Refusal::Other { .. }, _) => "what the system's words ask for".to_owned(),
    }
}

/// An unknown fact that no unread file explains.
fn unseen(state: ReadState, what: &str, why: String, remedy: &str) -> Option<Unseen> {
    let (what, remedy) = (what.to_owned(), remedy.to_owned());
    Some(Unseen { what, why, remedy, state, decisive: false, unread: None })
}

/// The kernel log, if it is missing or does not reach back to boot.
fn log(host: &Host) -> Option<Unseen> {
    let what = "what the kernel said at boot and since: faults, windows, bounce buffers that ran out";
    match (host.log.file.is_empty(), host.reach) {
        (false, _) if host.log.covers_boot => None,
        (false, _) => {
            let gap = match host.log.complete_from_boot {
                true => "ends before user space started, or lines were cut out of it",
                false => "does not reach back to the start of the boot",
            };
            unseen(
                ReadState::Partial,
                "all that the kernel said at boot",
                format!("{}: {gap}", host.log.file),
                "a log saved at boot: /var/log/dmesg, or journalctl -k",
            )
        }
        // A log that exists and was not read is listed with the unread files.
        (true, _)
            if host
                .unread
                .keys()
                .any(|file| source::find_source(file).is_some_and(|source| source.what == what)) =>
        {
            None
        }
        (true, Reach::Live) => {
            let remedy = "a host that gives its log to this container, or dmesg > /var/log/dmesg";
            unseen(ReadState::Absent, what, "/dev/kmsg: not there".to_owned(), remedy)
        }
        (true, Reach::Capture) => unseen(
            ReadState::Absent,
            what,
            "the capture holds no kernel log".to_owned(),
            "dmesg > var/log/dmesg in the capture",
        ),
    }
}

/// Earlier boots in the log, which were not looked at.
fn earlier_boots(host: &Host) -> Option<Unseen> {
    let last = host.log.last_line_of_earlier_boots?;
    let why = format!("{}: its lines up to {last} are of an earlier boot", host.log.file);
    unseen(
        ReadState::Partial,
        "what the kernel said in earlier boots",
        why,
        "an inspection of those lines alone",
    )
}

/// That the kernel's command line is unseen, because neither a file nor a log has it.
fn options(host: &Host) -> Option<Unseen> {
    if host.command_line.is_some() || host.unread.contains_key("proc/cmdline") {
        return None;
    }
    let why = "neither proc/cmdline nor a log with the kernel's command line was there".to_owned();
    unseen(ReadState::Absent, "the kernel's options", why, "proc/cmdline in the capture")
}

/// PCI functions, if there is no list of them.
fn functions(host: &Host) -> Option<Unseen> {
    if !host.adapters.is_empty() || !host.bridges.is_empty() {
        return None;
    }
    unseen(
        ReadState::Absent,
        "which PCI functions there are, and so the path of any adapter's DMA",
        "neither sys/bus/pci/devices nor the output of lspci was there, or they named none".to_owned(),
        "iotoll capture on the host, or lspci -vvvnnk as `lspci` in the capture",
    )
}

/// IOMMUs, if sysfs has neither groups nor units.
fn iommus(host: &Host) -> Option<Unseen> {
    let folders = ["sys/kernel/iommu_groups", "sys/class/iommu"];
    if host.iommus.visible || folders.iter().any(|folder| host.unread.contains_key(*folder)) {
        return None;
    }
    unseen(
        ReadState::Absent,
        "which IOMMUs are in use, and which adapters they translate",
        "neither sys/kernel/iommu_groups nor sys/class/iommu was there".to_owned(),
        "iotoll capture on the host",
    )
}

/// Configuration space, if that of some function was not read beyond its header.
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
    let found = (short > 0).then(|| unseen(ReadState::Partial, what, why, remedy)).flatten();
    found.map(|found| decisive_if_live(host, found))
}

/// Marks a fact as decisive on the running machine, where root could have read it. A capture contains what its maker could
/// read.
fn decisive_if_live(host: &Host, unseen: Unseen) -> Unseen {
    Unseen { decisive: host.reach == Reach::Live, ..unseen }
}

/// The memory map, if `/proc/iomem` hides its addresses.
fn memory_map(host: &Host) -> Option<Unseen> {
    let memory = host.memory.as_ref()?;
    (memory.iomem.as_ref().is_some_and(|iomem| iomem.hidden))
        .then(|| {
            unseen(
                ReadState::Partial,
                "where memory and reserved areas lie",
                "/proc/iomem: all addresses read as zero".to_owned(),
                "root (CAP_SYS_ADMIN)",
            )
        })
        .flatten()
        .map(|found| decisive_if_live(host, found))
}

/// Memory types that drivers asked for, if debugfs does not show them.
fn memory_types(tree: &Tree, host: &Host) -> Option<Unseen> {
    host.memory.as_ref()?;
    if tree.exists(MEMTYPES) || host.unread.contains_key(MEMTYPES) {
        return None;
    }
    let why =
        "/sys/kernel/debug/x86/pat_memtype_list: not there, debugfs is not mounted or not in the capture"
            .to_owned();
    unseen(
        ReadState::Absent,
        "memory types that drivers asked for (PAT)",
        why,
        "root, with debugfs mounted on /sys/kernel/debug",
    )
}

/// What lies in areas of `memmap=`, if neither the memory map nor the memory type registers were there.
fn areas(host: &Host) -> Option<Unseen> {
    let memory = host.memory.as_ref().filter(|memory| memory.shows_no_types())?;
    let set_aside = memory.memmap.iter().filter_map(|area| Some((area, area.set_aside()?)));
    let areas: Vec<String> = set_aside.map(|(area, range)| format!("{range} ({})", area.at.text)).collect();
    if areas.is_empty() {
        return None;
    }
    let what = format!("whether memory lies in {}, and of which memory type it is", areas.join(", "));
    let why = "neither /proc/iomem nor /proc/mtrr was there".to_owned();
    unseen(ReadState::Absent, &what, why, "proc/iomem and proc/mtrr, read by root")
}

/// That the use of the bounce buffers is unseen, because debugfs does not show it.
fn bounce_use(tree: &Tree, host: &Host) -> Option<Unseen> {
    if host.bounce.never.is_some() || tree.exists(BOUNCE_USE) || host.unread.contains_key(BOUNCE_USE) {
        return None;
    }
    let why = "/sys/kernel/debug/swiotlb: not there".to_owned();
    unseen(
        ReadState::Absent,
        "how full the bounce buffers are",
        why,
        "root, with debugfs mounted on /sys/kernel/debug",
    )
}

/// Drivers, if the source does not show which is bound.
fn drivers(host: &Host) -> Option<Unseen> {
    let lacks_driver = host.adapters.iter().any(|adapter| adapter.function.driver.is_none());
    (!host.shows_drivers && lacks_driver)
        .then(|| {
            let why =
                "neither /sys/bus/pci/devices nor `Kernel driver in use` of lspci -k was there".to_owned();
            let remedy = "iotoll capture on the host, or lspci -vvvk";
            unseen(ReadState::Absent, "which driver owns which adapter", why, remedy)
        })
        .flatten()
}
