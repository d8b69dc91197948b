//! The document `iotoll.bench-transfer/1` with the results of a run.

use crate::blk::BlkError;
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

/// Largest command: what its page of PRP entries can describe.
const COMMAND_BYTES_MAX: u64 = 2 << 20;
/// Largest buffer. A CPU's caches hold no more, and each word takes time to compare.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Memory for the admin queue, and for the rings of the other.
const QUEUES_BYTES: u64 = 2 << 20;

impl TransferSettings {
    /// Fails unless commands are whole pages and the buffer is whole commands. The disk's and the controller's limits come on top.
    ///
    /// # Errors
    /// [`BlkError::CommandSize`], [`BlkError::BufferSize`]
    pub fn check(&self) -> Result<(), BlkError> {
        let Self { bytes, command_bytes, .. } = *self;
        let is_whole = |bytes: u64, of: u64| bytes > 0 && bytes.is_multiple_of(of);
        if !is_whole(command_bytes, nvme::PAGE_BYTES) || command_bytes > COMMAND_BYTES_MAX {
            return Err(BlkError::CommandSize {
                bytes: command_bytes,
                step: nvme::PAGE_BYTES,
                bytes_max: COMMAND_BYTES_MAX,
            });
        }
        if !is_whole(bytes, command_bytes) || bytes > BUFFER_BYTES_MAX {
            return Err(BlkError::BufferSize { bytes, command_bytes, bytes_max: BUFFER_BYTES_MAX });
        }
        Ok(())
    }

    /// Bytes of DMA memory for queues and one buffer. Each part is aligned to its size, so as much may stay unused before it.
    pub fn memory_bytes(&self) -> u64 {
        let aligned = |bytes: u64| bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
        // Each entry has a PRP list of a page; commands and completions are far smaller.
        let lists = aligned((u64::from(self.depth) + 1) * nvme::PAGE_BYTES);
        aligned(self.bytes).saturating_add(lists).saturating_mul(2).saturating_add(QUEUES_BYTES)
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
    /// Whether an IOMMU makes all accesses of the controller snoop the CPU's caches; else each access snoops unless the controller asks
    /// not to. `None` if the kernel does not say.
    pub forces_snooping: Option<bool>,
    /// The results of each memory.
    pub memories: Vec<TransferRow>,
}

impl TransferBenchmark {
    /// Whether data differed in any memory.
    pub fn has_miscompares(&self) -> bool {
        self.memories.iter().any(TransferRow::has_miscompares)
    }
}

impl TransferRow {
    /// Whether data differed either way.
    pub fn has_miscompares(&self) -> bool {
        let reads = self.controller_reads.as_ref();
        self.controller_writes.miscompares > 0 || reads.is_some_and(|reads| reads.miscompares > 0)
    }
}

/// Who read the data that the CPU compares with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedFrom {
    /// The kernel's driver, before the adapter was unbound from it.
    Kernel,
    /// This program, into ordinary DMA memory: the kernel had no block device of the namespace.
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
    /// What the controller wrote to memory.
    pub controller_writes: ControllerWrites,
    /// What the controller read from memory; `None` if the controller does not support Compare.
    pub controller_reads: Option<ControllerReads>,
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
    /// The controller wrote to memory.
    pub controller_writes: f64,
    /// The controller read from memory; `None` if the controller does not support Compare.
    pub controller_reads: Option<f64>,
    /// The CPU stored.
    pub cpu_stores: f64,
    /// The CPU loaded and compared.
    pub cpu_loads: f64,
}

/// The controller wrote to memory, and the CPU compared each word.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControllerWrites {
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
    /// Whether that is what the CPU had stored before the transfer, as in a stale line of its cache.
    pub is_stale: bool,
}

/// The controller read memory, and compared it with its disk (NVMe's Compare).
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControllerReads {
    /// Bytes per second, over all rounds.
    pub bytes_per_second: Option<Summary>,
    /// Commands that compared.
    pub commands: u64,
    /// Commands whose data differed from what the CPU had stored.
    pub miscompares: u64,
}
