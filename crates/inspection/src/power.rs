//! POWER: the partition and its DMA windows.

use crate::citation::Citations;
use crate::hex;
use ddw::TceCalls;
use host::facts::power::{Endpoint, Partition};
use host::power::memory::MemoryRule;
use host::power::partition::Platform;
use host::power::window::{Ddw, DdwKind, DefaultWindow};
use host::{Citation, Cited};
use serde::Serialize;

/// The partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PowerPlatform {
    /// Guest of a hypervisor, or bare metal.
    pub platform: Option<Platform>,
    /// Machine type and model: `IBM,8231-E2C`.
    pub machine_type: Option<String>,
    /// Whether the machine is emulated; it then has neither slots nor firmware levels.
    pub is_qemu: bool,
    /// Firmware's level.
    pub firmware: Option<FirmwareLevel>,
    /// The partition's maximum memory.
    pub memory_max_bytes: Option<u64>,
    /// The kernel's rule for the maximum memory.
    pub memory_max_rule: Option<MemoryRule>,
    /// Whether one hypercall writes one translation entry or many: `single`, `multi`.
    pub tce_calls: Option<String>,
    /// There is persistent memory.
    pub persistent_memory: bool,
    /// Properties of the device tree that could not be understood.
    pub problems: Vec<String>,
}

/// Firmware's level: `AL770_028`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirmwareLevel {
    /// Letters before the release: `AL`.
    pub family: String,
    /// The release: 770.
    pub release: u32,
    /// The service pack: 28.
    pub service_pack: u32,
}

impl PowerPlatform {
    /// Converts the facts about the partition and records their citations.
    pub(crate) fn new(partition: &Partition, citations: &mut Citations) -> Self {
        let fact = |name: &str| format!("/power/{name}");
        if let Some(at) = &partition.persistent_memory {
            citations.record(fact("persistent_memory"), at);
        }
        if let Some(memory) = &partition.memory_max {
            memory.evidence.iter().for_each(|at| citations.record(fact("memory_max_bytes"), at));
        }
        Self {
            platform: citations.cite_value(fact("platform"), partition.platform.as_ref()),
            machine_type: citations
                .cite_value(fact("machine_type"), partition.machine_type.as_ref())
                .map(|machine| machine.as_str().to_owned()),
            is_qemu: partition.is_qemu,
            firmware: citations.cite_value(fact("firmware"), partition.firmware.as_ref()).map(|level| {
                FirmwareLevel {
                    family: level.family,
                    release: level.release,
                    service_pack: level.service_pack,
                }
            }),
            memory_max_bytes: partition.memory_max.as_ref().map(|memory| memory.bytes),
            memory_max_rule: partition.memory_max.as_ref().map(|memory| memory.rule),
            tce_calls: partition.tce_calls.map(|calls| {
                match calls {
                    TceCalls::Single => "single",
                    TceCalls::Multi => "multi",
                }
                .to_owned()
            }),
            persistent_memory: partition.persistent_memory.is_some(),
            problems: partition.problems.clone(),
        }
    }
}

/// A line of `/proc/powerpc/lparcfg`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartitionSetting {
    /// The name, before the equals sign.
    pub name: String,
    /// The value, after the equals sign.
    pub value: String,
    /// The line that it was read from.
    pub evidence: Citation,
}

impl PartitionSetting {
    /// The lines of `/proc/powerpc/lparcfg`.
    pub(crate) fn all(partition: &Partition) -> Vec<Self> {
        let entries = partition.lparcfg.iter().flat_map(|lparcfg| &lparcfg.entries);
        entries
            .map(|entry| Self {
                name: entry.key.clone(),
                value: entry.value.clone(),
                evidence: entry.at.clone(),
            })
            .collect()
    }
}

/// A node that owns DMA windows: a host bridge, or a bridge of its own partition endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DmaEndpoint {
    /// Path of the node.
    pub node: String,
    /// Firmware offers 64-bit windows here (`ibm,ddw-applicable`).
    pub offers_64_bit_windows: bool,
    /// Firmware can restore the default window (`ibm,ddw-extensions`).
    pub can_reset: bool,
    /// The line that this was read from; null if firmware offers nothing.
    pub evidence: Option<Citation>,
}

impl DmaEndpoint {
    /// The nodes of the device tree that own DMA windows.
    pub(crate) fn all(partition: &Partition) -> Vec<Self> {
        let row = |endpoint: &Endpoint| Self {
            node: endpoint.node.clone(),
            offers_64_bit_windows: endpoint.applicable.is_some(),
            can_reset: endpoint.extensions.as_ref().is_some_and(|cited| cited.value.reset.is_some()),
            evidence: endpoint.applicable.as_ref().map(|cited| cited.at.clone()),
        };
        partition.endpoints.values().map(row).collect()
    }
}

/// A range of I/O bus addresses with its translation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DmaWindow {
    /// Path of the node that owns it.
    pub node: String,
    /// Its use.
    pub kind: DmaWindowKind,
    /// Logical I/O bus number: the hypervisor's name for its table.
    pub liobn: String,
    /// First bus address.
    pub base: String,
    /// Its size; null beyond 64 bits.
    pub size_bytes: Option<u64>,
    /// Bytes that one entry maps; null for the default window, where firmware does not say.
    pub page_bytes: Option<u64>,
    /// The line that it was read from.
    pub evidence: Citation,
}

/// The use of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DmaWindowKind {
    /// 32-bit, an entry for each mapping.
    Default,
    /// 64-bit, all memory mapped once.
    Direct,
    /// 64-bit, an entry for each mapping.
    Dynamic,
}

impl DmaWindow {
    /// The windows of all nodes.
    pub(crate) fn all(partition: &Partition) -> Vec<Self> {
        let of_endpoint = |endpoint: &Endpoint| {
            let default =
                endpoint.default_window.iter().map(|window| Self::of_default(&endpoint.node, window));
            let others = endpoint.windows.iter().map(|window| Self::of_64_bit(&endpoint.node, window));
            default.chain(others).collect::<Vec<_>>()
        };
        partition.endpoints.values().flat_map(of_endpoint).collect()
    }

    /// The row of a node's default window.
    fn of_default(node: &str, Cited { value, at }: &Cited<DefaultWindow>) -> Self {
        Self {
            node: node.to_owned(),
            kind: DmaWindowKind::Default,
            liobn: hex::address(value.liobn.into()),
            base: hex::address(value.base),
            size_bytes: Some(value.size_bytes),
            page_bytes: None,
            evidence: at.clone(),
        }
    }

    /// The row of a 64-bit window.
    fn of_64_bit(node: &str, Cited { value, at }: &Cited<Ddw>) -> Self {
        Self {
            node: node.to_owned(),
            kind: match value.kind {
                DdwKind::Direct => DmaWindowKind::Direct,
                DdwKind::Dynamic => DmaWindowKind::Dynamic,
            },
            liobn: hex::address(value.liobn.into()),
            base: hex::address(value.base),
            size_bytes: 1_u64.checked_shl(value.window_shift),
            page_bytes: 1_u64.checked_shl(value.page_shift),
            evidence: at.clone(),
        }
    }
}
