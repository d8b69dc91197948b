//! The document `iotoll.bench-blk/1` with the results of a run.

use crate::head::Head;
use crate::latency::Latency;
use crate::summary::Summary;
use serde::Serialize;
use std::fmt;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const BLK_SCHEMA: &str = "iotoll.bench-blk/1";

/// What is measured of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BlkOperation {
    /// Random reads.
    Read,
    /// Random writes of random data.
    Write,
}

impl fmt::Display for BlkOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlkSettings {
    /// What each interface is measured by, in this order. The document's rows say it.
    #[serde(skip)]
    pub operations: Vec<BlkOperation>,
    /// Requests in flight at once, one column each.
    pub depths: Vec<u16>,
    /// Bytes of each request.
    pub bytes: u64,
    /// Measured rounds.
    pub rounds: usize,
    /// Milliseconds of a round.
    pub round_ms: u64,
}

impl Default for BlkSettings {
    /// Reads of 4 KiB with 1, 8 and 32 in flight.
    fn default() -> Self {
        Self {
            operations: vec![BlkOperation::Read],
            depths: vec![1, 8, 32],
            bytes: 4096,
            rounds: 9,
            round_ms: 200,
        }
    }
}

/// Memory for queues and other small structures.
const SMALL_BYTES: u64 = 2 << 20;

impl BlkSettings {
    /// Measurements of an interface.
    pub(super) fn steps(&self) -> usize {
        self.operations.len() * self.depths.len()
    }

    /// Bytes of DMA memory for the user-space driver's queues and buffers. Each part is aligned to its size, so as much may
    /// stay unused before it.
    pub fn memory_bytes(&self) -> u64 {
        let requests = u64::from(self.depths.iter().copied().max().unwrap_or_default());
        let part =
            |each: u64| (requests + 2).saturating_mul(each).checked_next_power_of_two().unwrap_or(u64::MAX);
        let buffers = part(self.bytes.max(1).checked_next_multiple_of(nvme::PAGE_BYTES).unwrap_or(u64::MAX));
        let lists = part(nvme::PAGE_BYTES);
        buffers.saturating_add(lists).saturating_mul(2).saturating_add(SMALL_BYTES)
    }
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlkBenchmark {
    /// The document's head, with the schema [`BLK_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: BlkSettings,
    /// The disk's name.
    pub disk: String,
    /// The results of each interface, a row for each operation.
    pub rows: Vec<BlkRow>,
}

/// The results of one interface to the disk by one operation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlkRow {
    /// The interface's name.
    pub way: String,
    /// What was measured.
    pub operation: BlkOperation,
    /// The interface's description.
    pub what: String,
    /// The results at each depth.
    pub cells: Vec<BlkCell>,
}

/// The results of an interface with a number of requests in flight.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlkCell {
    /// Requests in flight at once.
    pub depth: u16,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// Reads per second, over all rounds.
    pub reads_per_second: Option<Summary>,
    /// Reads per second of the measuring thread's CPU time. Interrupts on other CPUs are not included.
    pub reads_per_cpu_second: Option<Summary>,
    /// Writes per second, over all rounds.
    pub writes_per_second: Option<Summary>,
    /// Writes per second of the measuring thread's CPU time. Interrupts on other CPUs are not included.
    pub writes_per_cpu_second: Option<Summary>,
    /// Time from the start of a request to its completion.
    pub latency: Option<Latency>,
}

impl BlkCell {
    /// A cell that was not measured, with the reason.
    pub(super) fn absent(depth: u16, why: String) -> Self {
        Self { absent: Some(why), ..Self::empty(depth) }
    }

    /// A cell with rates of an operation: per second, and per second of CPU time.
    pub(super) fn measured(
        operation: BlkOperation,
        depth: u16,
        [per_second, per_cpu_second]: [Option<Summary>; 2],
        latency: Latency,
    ) -> Self {
        let cell = Self { latency: Some(latency), ..Self::empty(depth) };
        match operation {
            BlkOperation::Read => {
                Self { reads_per_second: per_second, reads_per_cpu_second: per_cpu_second, ..cell }
            }
            BlkOperation::Write => {
                Self { writes_per_second: per_second, writes_per_cpu_second: per_cpu_second, ..cell }
            }
        }
    }

    fn empty(depth: u16) -> Self {
        Self {
            depth,
            absent: None,
            reads_per_second: None,
            reads_per_cpu_second: None,
            writes_per_second: None,
            writes_per_cpu_second: None,
            latency: None,
        }
    }

    /// Requests per second of its row's operation.
    pub fn per_second(&self) -> Option<Summary> {
        self.reads_per_second.or(self.writes_per_second)
    }

    /// Requests per second of CPU time of its row's operation.
    pub fn per_cpu_second(&self) -> Option<Summary> {
        self.reads_per_cpu_second.or(self.writes_per_cpu_second)
    }
}
