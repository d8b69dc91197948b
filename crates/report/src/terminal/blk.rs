//! Disks that a process could drive, and what their controllers say.

use super::page::Page;
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use escape::terminal::plain;

/// An NVMe controller of a host.
#[derive(Debug, Clone)]
pub struct BlockAdapter {
    /// Its address.
    pub address: String,
    /// What it says of itself.
    pub model: Option<String>,
    /// The driver that has it.
    pub driver: Option<String>,
    /// Its IOMMU group.
    pub group: Option<u32>,
    /// Disks that the kernel has on it.
    pub disks: Vec<BlockDisk>,
    /// What speaks against driving it from a process; nothing if it can be.
    pub refusals: Vec<String>,
}

/// A disk of the kernel's.
#[derive(Debug, Clone)]
pub struct BlockDisk {
    /// Its name in `/dev`.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// Each controller, with what speaks against driving it.
pub fn block_adapters(adapters: &[BlockAdapter], width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title("NVMe controllers");
    if adapters.is_empty() {
        page.item("", "this host has none", 2);
    }
    for adapter in adapters {
        let model = adapter.model.as_deref().unwrap_or("model unknown");
        page.heading(&plain(&format!("{}  {model}", adapter.address)));
        let group = adapter.group.map_or_else(|| "none".to_owned(), |group| group.to_string());
        page.fact(&Fact::known("driver", adapter.driver.as_deref().unwrap_or("none")), FACT_WIDTH);
        page.fact(&Fact::known("IOMMU group", &group), FACT_WIDTH);
        for disk in &adapter.disks {
            let told = format!("/dev/{}, {}", disk.name, quantity::bytes(disk.bytes));
            page.fact(&Fact::known("disk", &plain(&told)), FACT_WIDTH);
        }
        if adapter.refusals.is_empty() {
            page.fact(&Fact::known("can be driven", "yes"), FACT_WIDTH);
        }
        for refusal in &adapter.refusals {
            page.item("not driven: ", &plain(refusal), 2);
        }
    }
    page.done()
}

const FACT_WIDTH: usize = 15;

/// What a controller is, and the newest entries of its error log.
#[derive(Debug, Clone)]
pub struct ControllerLog {
    /// Its model.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Revision of its firmware.
    pub firmware: String,
    /// Of each namespace number, blocks, and bytes of a block.
    pub namespaces: Vec<(u32, u64, u64)>,
    /// The newest first.
    pub entries: Vec<LogEntry>,
}

/// An entry of the error log.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Errors since the controller was made, with this one.
    pub count: u64,
    /// The command's submission queue.
    pub queue: u16,
    /// The command's identifier.
    pub command: u16,
    /// How it was completed.
    pub status: String,
    /// Its namespace.
    pub namespace: u32,
    /// The first block that it is about.
    pub block: u64,
}

/// A controller and what went wrong.
pub fn controller_log(log: &ControllerLog, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&format!("{}, serial number {}, firmware {}", log.model, log.serial, log.firmware)));
    for (number, blocks, block_bytes) in &log.namespaces {
        page.item("", &format!("namespace {number}: {blocks} blocks of {block_bytes} bytes"), 2);
    }
    page.heading("Errors, the newest first");
    if log.entries.is_empty() {
        page.item("", "none", 2);
    }
    for entry in &log.entries {
        let LogEntry { count, queue, command, status, namespace, block } = entry;
        let told =
            format!("{status}: block {block} of namespace {namespace}, command {command} of queue {queue}");
        page.item(&format!("{count}: "), &plain(&told), 2);
    }
    page.done()
}
