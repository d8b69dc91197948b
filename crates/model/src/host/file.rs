//! A host's CPUs and mappings as a user's file describes them.

use super::cpus::{Cpus, LineTransfer};
use super::invalidation_queue::InvalidationQueue;
use super::mapping::{DmaPath, InvalidationMode, Locking, MappingCost};
use super::memory::Memory;
use super::translator::IommuSetup;
use crate::iommu::Hardware;
use crate::user_file::InvalidField;
use des::Span;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CpusFile {
    cores: u32,
    cores_per_node: u32,
    core_capacity: Vec<f64>,
    instruction_ns: f64,
    wake_ns: f64,
    line_same_node_ns: f64,
    line_other_node_ns: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MappingFile {
    dma_path: DmaPathFile,
    window_bytes: u64,
    direct_instructions: f64,
    window_instructions: f64,
    locked_instructions: f64,
    translated_instructions: f64,
    submit_instructions: f64,
    invalidation_ns: f64,
    hypercall_ns: f64,
    entry_ns: f64,
    lock_lines: f64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IommuFile {
    entries: usize,
    ways: usize,
    walk_ns: f64,
    walk_gap_ns: f64,
    #[serde(default)]
    invalidates_domain: bool,
    queue: Option<QueueFile>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFile {
    slots: u32,
    flush_ns: f64,
    poll_ns: f64,
    waits_with_lock: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryFile {
    adapter_node: u32,
    remote_dma_ns: f64,
    line_bytes: u64,
    remote_line_ns: f64,
    copy_ps_per_byte: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DmaPathFile {
    Direct,
    TableLock,
    BitmapLock,
    Pools,
    TranslatedStrict,
    TranslatedLazy,
}

impl CpusFile {
    pub(crate) fn cpus(&self) -> Cpus {
        Cpus {
            cores: self.cores,
            cores_per_node: self.cores_per_node,
            core_capacity: self.core_capacity.clone(),
            instruction_ns: self.instruction_ns,
            wake: Span::from_ns_f64(self.wake_ns),
            line: LineTransfer {
                same_node: Span::from_ns_f64(self.line_same_node_ns),
                other_node: Span::from_ns_f64(self.line_other_node_ns),
            },
        }
    }

    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let threads = self.core_capacity.len();
        let is_capacity = self.core_capacity.iter().all(|capacity| (0.01..=64.0).contains(capacity));
        let wrong = [
            InvalidField::unless_count("cpus.cores", self.cores.into(), 4096),
            InvalidField::unless_count("cpus.cores_per_node", self.cores_per_node.into(), 4096),
            InvalidField::unless(
                (1..=8).contains(&threads),
                "cpus.core_capacity",
                threads,
                "a number for each of 1 to 8 threads",
            ),
            InvalidField::unless(
                is_capacity,
                "cpus.core_capacity",
                format!("{:?}", self.core_capacity),
                "each 0.01 to 64",
            ),
            InvalidField::unless(
                (0.001..=1e3).contains(&self.instruction_ns),
                "cpus.instruction_ns",
                self.instruction_ns,
                "0.001 to 1000",
            ),
            InvalidField::unless_time("cpus.wake_ns", self.wake_ns),
            InvalidField::unless_time("cpus.line_same_node_ns", self.line_same_node_ns),
            InvalidField::unless_time("cpus.line_other_node_ns", self.line_other_node_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl IommuFile {
    pub(crate) fn iommu(&self) -> IommuSetup {
        IommuSetup {
            hardware: Hardware {
                entries: self.entries,
                ways: self.ways,
                walk: Span::from_ns_f64(self.walk_ns),
                walk_gap: Span::from_ns_f64(self.walk_gap_ns),
            },
            invalidates_domain: self.invalidates_domain,
            queue: self.queue.as_ref().map(|queue| InvalidationQueue {
                slots: queue.slots,
                flush: Span::from_ns_f64(queue.flush_ns),
                poll: Span::from_ns_f64(queue.poll_ns),
                waits_with_lock: queue.waits_with_lock,
            }),
        }
    }

    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let hardware = Hardware::invalid_field(self.entries, self.ways, self.walk_ns, self.walk_gap_ns);
        hardware.or_else(|| self.queue.as_ref()?.invalid_field())
    }
}

impl QueueFile {
    fn invalid_field(&self) -> Option<InvalidField> {
        let is_room = (2..=1 << 16).contains(&self.slots);
        let wrong = [
            InvalidField::unless(is_room, "iommu.queue.slots", self.slots, "2 to 65536"),
            InvalidField::unless_time("iommu.queue.flush_ns", self.flush_ns),
            InvalidField::unless_time("iommu.queue.poll_ns", self.poll_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl MemoryFile {
    pub(crate) fn memory(&self) -> Memory {
        Memory {
            adapter_node: self.adapter_node,
            remote_dma: Span::from_ns_f64(self.remote_dma_ns),
            line_bytes: self.line_bytes,
            remote_line: Span::from_ns_f64(self.remote_line_ns),
            copy_ps_per_byte: self.copy_ps_per_byte,
        }
    }

    pub(crate) fn invalid_field(&self, cpus: &CpusFile) -> Option<InvalidField> {
        let has_node = self.adapter_node < cpus.cores.div_ceil(cpus.cores_per_node.max(1));
        let is_line = self.line_bytes.is_power_of_two() && (16..=4096).contains(&self.line_bytes);
        let wrong = [
            InvalidField::unless(
                has_node,
                "memory.adapter_node",
                self.adapter_node,
                "a node: less than cpus.cores over cpus.cores_per_node",
            ),
            InvalidField::unless_time("memory.remote_dma_ns", self.remote_dma_ns),
            InvalidField::unless(
                is_line,
                "memory.line_bytes",
                self.line_bytes,
                "a power of two from 16 to 4096",
            ),
            InvalidField::unless_time("memory.remote_line_ns", self.remote_line_ns),
            InvalidField::unless(
                (0.0..=1e6).contains(&self.copy_ps_per_byte),
                "memory.copy_ps_per_byte",
                self.copy_ps_per_byte,
                "0 to 1e6",
            ),
        ];
        wrong.into_iter().flatten().next()
    }
}

impl MappingFile {
    pub(crate) fn dma_path(&self) -> DmaPath {
        let bytes = self.window_bytes;
        match self.dma_path {
            DmaPathFile::Direct => DmaPath::Direct,
            DmaPathFile::TableLock => DmaPath::Window { bytes, locking: Locking::Table },
            DmaPathFile::BitmapLock => DmaPath::Window { bytes, locking: Locking::Bitmap },
            DmaPathFile::Pools => DmaPath::Window { bytes, locking: Locking::Pools },
            DmaPathFile::TranslatedStrict => DmaPath::Translated { mode: InvalidationMode::Strict },
            DmaPathFile::TranslatedLazy => DmaPath::Translated { mode: InvalidationMode::Lazy },
        }
    }

    pub(crate) fn cost(&self) -> MappingCost {
        MappingCost {
            direct_instructions: self.direct_instructions,
            window_instructions: self.window_instructions,
            locked_instructions: self.locked_instructions,
            translated_instructions: self.translated_instructions,
            submit_instructions: self.submit_instructions,
            invalidation: Span::from_ns_f64(self.invalidation_ns),
            hypercall: Span::from_ns_f64(self.hypercall_ns),
            entry: Span::from_ns_f64(self.entry_ns),
            lock_lines: self.lock_lines,
        }
    }

    pub(crate) fn invalid_field(&self) -> Option<InvalidField> {
        let bytes = self.window_bytes;
        let is_window = bytes.is_power_of_two() && (2 << 20..=4 << 30).contains(&bytes);
        let wrong = [
            InvalidField::unless(
                is_window,
                "mapping.window_bytes",
                bytes,
                "a power of two from 2 MiB to 4 GiB",
            ),
            InvalidField::unless_instructions("mapping.direct_instructions", self.direct_instructions),
            InvalidField::unless_instructions("mapping.window_instructions", self.window_instructions),
            InvalidField::unless_instructions("mapping.locked_instructions", self.locked_instructions),
            InvalidField::unless_instructions(
                "mapping.translated_instructions",
                self.translated_instructions,
            ),
            InvalidField::unless_instructions("mapping.submit_instructions", self.submit_instructions),
            InvalidField::unless_time("mapping.invalidation_ns", self.invalidation_ns),
            InvalidField::unless_time("mapping.hypercall_ns", self.hypercall_ns),
            InvalidField::unless_time("mapping.entry_ns", self.entry_ns),
            InvalidField::unless(
                (0.0..=1e3).contains(&self.lock_lines),
                "mapping.lock_lines",
                self.lock_lines,
                "0 to 1000",
            ),
        ];
        wrong.into_iter().flatten().next()
    }
}
