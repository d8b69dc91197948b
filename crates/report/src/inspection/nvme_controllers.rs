//! NVMe controllers that a process could drive, and a controller's error log.

use crate::page::fact::Fact;
use crate::page::quantity;
use crate::page::{Lead, Page};

/// Columns for the names of facts.
const NAMES: usize = 15;

/// An NVMe controller of a host.
#[derive(Debug, Clone)]
pub struct BlockAdapter {
    /// Its PCI address.
    pub address: String,
    /// The model that it reports.
    pub model: Option<String>,
    /// The driver that is bound to it.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub group: Option<u32>,
    /// The kernel's disks on it.
    pub disks: Vec<BlockDisk>,
    /// Reasons against driving it from a process; empty if it can be.
    pub refusals: Vec<String>,
}

/// A disk of the kernel.
#[derive(Debug, Clone)]
pub struct BlockDisk {
    /// Its name in `/dev`.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// Each controller with its disks, and whether a process can drive it.
pub fn block_adapters(adapters: &[BlockAdapter]) -> Page {
    let mut page = Page::titled("NVMe controllers");
    if adapters.is_empty() {
        page.prose("this host has none", 2);
    }
    for adapter in adapters {
        let model = adapter.model.as_deref().unwrap_or("model unknown");
        page.heading(format!("{}  {model}", adapter.address));
        let group = adapter.group.map_or_else(|| "none".to_owned(), |group| group.to_string());
        let driver = Fact::known("driver", adapter.driver.as_deref().unwrap_or("none"));
        page.facts([driver, Fact::known("IOMMU group", &group)], NAMES);
        let disk = |disk: &BlockDisk| format!("/dev/{}, {}", disk.name, quantity::bytes(disk.bytes));
        page.facts(adapter.disks.iter().map(|one| Fact::known("disk", &disk(one))), NAMES);
        if adapter.refusals.is_empty() {
            page.facts([Fact::known("can be driven", "yes")], NAMES);
        }
        for refusal in &adapter.refusals {
            page.item(Lead::Mark("not driven: ".to_owned()), refusal);
        }
    }
    page
}

/// A controller, and the newest entries of its error log.
#[derive(Debug, Clone)]
pub struct ControllerLog {
    /// Its model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// The revision of its firmware.
    pub firmware: String,
    /// For each namespace: its number, the number of its blocks, and the bytes of a block.
    pub namespaces: Vec<(u32, u64, u64)>,
    /// Entries of the same kind, the most frequent first.
    pub groups: Vec<LogGroup>,
    /// The newest first.
    pub entries: Vec<LogEntry>,
}

/// Entries of the error log with the same queue and status, and blocks close to each other.
#[derive(Debug, Clone)]
pub struct LogGroup {
    /// What happened, how often, and where.
    pub sentence: String,
    /// What the status means, and what to do.
    pub advice: String,
}

/// An entry of the error log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The number of errors since the controller was made, this one included.
    pub count: u64,
    /// The number of the command's submission queue.
    pub queue: u16,
    /// The command's identifier.
    pub command: u16,
    /// The status that it was completed with.
    pub status: String,
    /// The number of its namespace.
    pub namespace: u32,
    /// The number of its first block.
    pub block: u64,
}

/// A controller with its namespaces and its error log.
pub fn controller_log(log: &ControllerLog) -> Page {
    let mut page =
        Page::titled(format!("{}, serial number {}, firmware {}", log.model, log.serial, log.firmware));
    for (number, blocks, block_bytes) in &log.namespaces {
        page.prose(format!("namespace {number}: {blocks} blocks of {block_bytes} bytes"), 2);
    }
    if !log.groups.is_empty() {
        page.heading("What the errors say");
    }
    for group in &log.groups {
        page.item(Lead::Mark("- ".to_owned()), format!("{}. {}", group.sentence, group.advice));
    }
    page.heading("Errors, the newest first");
    if log.entries.is_empty() {
        page.prose("none", 2);
    }
    for entry in &log.entries {
        let LogEntry { count, queue, command, status, namespace, block } = entry;
        let text =
            format!("{status}: block {block} of namespace {namespace}, command {command} of queue {queue}");
        page.item(Lead::Mark(format!("{count}: ")), text);
    }
    page
}
