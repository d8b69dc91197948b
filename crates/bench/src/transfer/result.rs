//! The document `iotoll.bench-transfer/1` with the results of a run.

use crate::head::Head;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const TRANSFER_SCHEMA: &str = "iotoll.bench-transfer/1";

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferSettings {
    /// Bytes of each buffer: a multiple of `command_bytes`.
    pub bytes: u64,
    /// Bytes of each command: a multiple of 4,096 and of the disk's blocks.
    pub command_bytes: u64,
    /// Commands in flight at once.
    pub depth: u16,
    /// The first block of the disk that is transferred.
    pub first: u64,
    /// Measured rounds.
    pub rounds: usize,
    /// Milliseconds of a round.
    pub round_ms: u64,
}

impl Default for TransferSettings {
    /// A MiB, which most caches hold, in commands of 64 KiB.
    fn default() -> Self {
        Self { bytes: 1 << 20, command_bytes: 64 << 10, depth: 8, first: 0, rounds: 9, round_ms: 50 }
    }
}

/// Memory for queues and their lists.
const QUEUES_BYTES: u64 = 4 << 20;

impl TransferSettings {
    /// Bytes of DMA memory for queues and one buffer. A buffer is aligned to its size, so as much may stay unused before it.
    pub fn memory_bytes(&self) -> u64 {
        let buffer = self.bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
        buffer.saturating_mul(2).saturating_add(QUEUES_BYTES)
    }
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferBenchmark {
    /// The document's head, with the schema [`TRANSFER_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: TransferSettings,
    /// PCI address of the NVMe controller.
    pub adapter: String,
    /// Its model, as it says.
    pub model: String,
    /// Who read the data that the CPU compares with.
    pub expected_from: ExpectedFrom,
    /// Whether an IOMMU makes all accesses of the adapter snoop the CPU's caches. `None` if the kernel does not say, or without an
    /// IOMMU: then each access snoops as the adapter asks.
    pub forces_snooping: Option<bool>,
    /// The results of each memory.
    pub memories: Vec<TransferRow>,
}

impl TransferBenchmark {
    /// Words and commands that differed, in all memories.
    pub fn miscompares(&self) -> u64 {
        self.memories.iter().map(TransferRow::miscompares).sum()
    }
}

impl TransferRow {
    /// Words and commands that differed.
    pub fn miscompares(&self) -> u64 {
        self.to_memory.miscompares + self.from_memory.as_ref().map_or(0, |reads| reads.miscompares)
    }
}

/// Who read the data that the CPU compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedFrom {
    /// The kernel's driver, before the adapter was unbound from it.
    Kernel,
    /// This program, into memory of the DMA API's kind: the kernel had no block device of the namespace.
    ThisProgram,
}

/// The results of one memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRow {
    /// The memory's name.
    pub name: String,
    /// How the CPU's mapping was made.
    pub mapping: String,
    /// The memory type that the CPU uses, where it is known: `WB`, `WC`, `UC` ...
    pub memory_type: Option<String>,
    /// Bytes per second that the adapter wrote to memory.
    pub to_memory: DeviceWrites,
    /// Bytes per second that the adapter read from memory; `None` if the controller does not support Compare.
    pub from_memory: Option<DeviceReads>,
    /// Bytes per second that the CPU stored, eight at a time.
    pub cpu_store_bytes_per_second: Option<Summary>,
    /// Bytes per second that the CPU loaded and compared, eight at a time.
    pub cpu_load_bytes_per_second: Option<Summary>,
    /// The rates of each round.
    pub rounds: Vec<TransferRound>,
}

/// The rates of a round, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferRound {
    /// The adapter wrote to memory.
    pub adapter_writes: f64,
    /// The adapter read from memory; `None` if the controller does not support Compare.
    pub adapter_reads: Option<f64>,
    /// The CPU stored.
    pub cpu_stores: f64,
    /// The CPU loaded and compared.
    pub cpu_loads: f64,
}

/// The adapter wrote to memory, and the CPU compared each word.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceWrites {
    /// Bytes per second, over all rounds.
    pub bytes_per_second: Option<Summary>,
    /// Words of eight bytes that the CPU compared.
    pub words: u64,
    /// Words that differed from what is on the disk.
    pub miscompares: u64,
    /// The first of them.
    pub first_miscompare: Option<Miscompare>,
}

/// A word that differed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Miscompare {
    /// Its offset in the buffer, in bytes.
    pub offset: u64,
    /// What is on the disk.
    pub expected: u64,
    /// What the CPU loaded.
    pub found: u64,
    /// Whether that is what the CPU had stored before the transfer: a stale line of its cache.
    pub is_stale: bool,
}

/// The adapter read memory, and compared it with its disk (NVMe's Compare).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceReads {
    /// Bytes per second, over all rounds.
    pub bytes_per_second: Option<Summary>,
    /// Commands that compared.
    pub commands: u64,
    /// Commands whose data differed from what the CPU had stored.
    pub miscompares: u64,
}
