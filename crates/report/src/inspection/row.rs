//! An adapter in one line.

use super::link_text;
use crate::page::cost;
use escape::terminal::plain;
use host::Bdf;
use host::diagnose::{DmaPath, Inspection, Severity, Verdict};
use host::facts::Adapter;
use host::facts::adapter::Interface;
use host::pci::Kind;
use host::pci::class::Storage;
use std::collections::{HashMap, HashSet};

/// Names shown of one adapter; the rest is counted.
const INTERFACES_MAX: usize = 3;

/// How many findings there are, and the worst severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The number of findings.
    pub(crate) count: usize,
    /// The severity of the worst.
    pub(crate) worst: Option<Severity>,
}

impl Findings {
    /// The sum of both counts.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { count: self.count + other.count, worst: self.worst.max(other.worst) }
    }
}

/// An adapter as a row of a table or a card of a tree. Texts that are not known are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) address: Bdf,
    pub(crate) dma_path: DmaPath,
    pub(crate) condition: String,
    pub(crate) reason: String,
    pub(crate) kind: &'static str,
    pub(crate) interfaces: Vec<String>,
    pub(crate) device: String,
    pub(crate) driver: String,
    pub(crate) mask: String,
    pub(crate) group: String,
    pub(crate) numa: String,
    pub(crate) link: String,
    pub(crate) findings: Findings,
}

impl Row {
    /// The word for its DMA path, with a mark where it holds on a condition.
    pub(crate) fn path_word(&self) -> String {
        let mark = if self.condition.is_empty() { "" } else { super::footnotes::MARK };
        format!("{}{mark}", self.dma_path.word())
    }
}

/// The adapters that a driver is bound to, worst DMA path first.
pub(crate) fn rows(inspection: &Inspection) -> Vec<Row> {
    let findings = by_address(inspection);
    let working = inspection.adapters().filter(|(_, verdict)| verdict.dma_path != DmaPath::Unbound);
    let mut rows: Vec<Row> = working.map(|(adapter, verdict)| row(adapter, verdict, &findings)).collect();
    rows.sort_by_key(|row| (cost::rank(row.dma_path), row.address));
    rows
}

/// The number of functions without a driver.
pub(crate) fn unbound(inspection: &Inspection) -> usize {
    inspection.dma_paths.iter().filter(|verdict| verdict.dma_path == DmaPath::Unbound).count()
}

/// The findings of each adapter.
fn by_address(inspection: &Inspection) -> HashMap<Bdf, Findings> {
    let mut found: HashMap<Bdf, Findings> = HashMap::new();
    for finding in &inspection.findings {
        if let Some(address) = finding.address {
            let one = Findings { count: 1, worst: Some(finding.severity) };
            let sum = found.entry(address).or_default();
            *sum = sum.and(one);
        }
    }
    found
}

/// The row of one adapter.
fn row(adapter: &Adapter, verdict: &Verdict, findings: &HashMap<Bdf, Findings>) -> Row {
    let function = &adapter.function;
    let number = |cited: Option<&host::Cited<u32>>| cited.map_or_else(String::new, |c| c.value.to_string());
    Row {
        address: function.address,
        dma_path: verdict.dma_path,
        condition: verdict.condition.as_deref().map_or_else(String::new, plain),
        reason: verdict.reason.as_deref().map_or_else(String::new, plain),
        kind: function.ids.class.map_or("function", |class| kind_word(class.kind())),
        interfaces: interfaces(&adapter.interfaces),
        device: chip_name(adapter),
        driver: function.driver.as_ref().map_or_else(String::new, |driver| plain(&driver.value)),
        mask: number(adapter.dma_mask_bits.as_ref()),
        group: number(function.iommu_group.as_ref()),
        numa: number(function.numa_node.as_ref()),
        link: link_text::one_end(&function.link.value),
        findings: findings.get(&function.address).copied().unwrap_or_default(),
    }
}

impl Row {
    /// The names of its interfaces, such as `eth0`; the chip's name if it has none.
    pub(crate) fn display_name(&self) -> String {
        match self.interfaces.len() {
            0 => self.device.clone(),
            count => {
                let shown = self.interfaces[..count.min(INTERFACES_MAX)].join(" ");
                match count.checked_sub(INTERFACES_MAX) {
                    Some(more @ 1..) => format!("{shown} +{more}"),
                    _ => shown,
                }
            }
        }
    }
}

/// Bytes of the longest name that another may begin with. Names of the kernel are shorter (`IFNAMSIZ`, `DISK_NAME_LEN`).
const NAME_BYTES_MAX: usize = 32;

/// The interfaces' names, without those that begin with another: of `nvme0` and `nvme0n1`, only `nvme0`.
fn interfaces(all: &[Interface]) -> Vec<String> {
    let known: HashSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let extends_another = |name: &str| {
        let letters = name.char_indices().skip(1).filter(|(_, c)| c.is_ascii_alphabetic());
        letters.take_while(|(at, _)| *at <= NAME_BYTES_MAX).any(|(at, _)| known.contains(&name[..at]))
    };
    let mut names: Vec<String> =
        all.iter().filter(|one| !extends_another(&one.name)).map(|one| plain(&one.name)).collect();
    names.dedup();
    names
}

/// A short name of the chip: of `MT2892 Family [ConnectX-6 Dx]`, the part in brackets.
fn chip_name(adapter: &Adapter) -> String {
    let ids = &adapter.function.ids;
    let Some(name) = &adapter.names.device else {
        let (Some(vendor_id), Some(device_id)) = (ids.vendor, ids.device) else {
            return "not named".to_owned();
        };
        let vendor = adapter.names.vendor.as_deref().map(|vendor| format!("{} ", first_word(vendor)));
        return plain(&format!("{}{vendor_id:04x}:{device_id:04x}", vendor.unwrap_or_default()));
    };
    let bracketed = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    plain(bracketed.map_or(name.as_str(), |(_, short)| short))
}

/// The name up to its first blank or comma.
fn first_word(name: &str) -> &str {
    name.split([' ', ',']).next().unwrap_or(name)
}

/// The kind of adapter in a word or two.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Network => "network",
        Kind::Fabric => "fabric",
        Kind::Storage(Storage::Nvme) => "NVMe",
        Kind::Storage(Storage::Sas) => "SAS",
        Kind::Storage(Storage::FibreChannel) => "Fibre Channel",
        Kind::Storage(Storage::Sata) => "SATA",
        Kind::Storage(Storage::Raid) => "RAID",
        Kind::Storage(Storage::Scsi) => "SCSI",
        Kind::Storage(Storage::Ide) => "IDE",
        Kind::Storage(Storage::Ufs) => "UFS",
        Kind::Storage(Storage::Other) => "storage",
        Kind::Display => "display",
        Kind::Accelerator => "accelerator",
        Kind::Bridge => "bridge",
        Kind::Iommu => "IOMMU",
        Kind::Usb => "USB",
        Kind::Thunderbolt => "Thunderbolt",
        Kind::Audio => "audio",
        Kind::Other => "function",
    }
}
