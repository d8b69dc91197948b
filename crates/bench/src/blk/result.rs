//! What a run found out: the document `iotoll.bench-blk/1`.

use crate::head::Head;
use crate::latency::Latency;
use crate::summary::Summary;
use serde::Serialize;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const BLK_SCHEMA: &str = "iotoll.bench-blk/1";

/// What is measured, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlkSettings {
    /// Reads in flight at once, one column each.
    pub depths: Vec<u16>,
    /// Of each read.
    pub bytes: u64,
    /// Rounds that count.
    pub rounds: usize,
    /// How long each takes.
    pub round_ms: u64,
}

impl Default for BlkSettings {
    /// 4 KiB, alone and many at once.
    fn default() -> Self {
        Self { depths: vec![1, 8, 32], bytes: 4096, rounds: 9, round_ms: 200 }
    }
}

/// For queues, and whatever else is small.
const SMALL_BYTES: u64 = 2 << 20;

impl BlkSettings {
    /// Memory for queues and buffers that the way past the kernel takes. Each part begins at a multiple of its size, before which as much may be left
    /// over.
    pub fn memory_bytes(&self) -> u64 {
        let reads = u64::from(self.depths.iter().copied().max().unwrap_or_default());
        let part =
            |each: u64| (reads + 2).saturating_mul(each).checked_next_power_of_two().unwrap_or(u64::MAX);
        let buffers = part(self.bytes.max(1).checked_next_multiple_of(nvme::PAGE_BYTES).unwrap_or(u64::MAX));
        let lists = part(nvme::PAGE_BYTES);
        buffers.saturating_add(lists).saturating_mul(2).saturating_add(SMALL_BYTES)
    }
}

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct BlkBenchmark {
    /// What it is, of [`BLK_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// What was asked for.
    pub settings: BlkSettings,
    /// What was read.
    pub disk: String,
    /// Each way.
    pub rows: Vec<BlkRow>,
}

/// A way to the disk.
#[derive(Debug, Clone, Serialize)]
pub struct BlkRow {
    /// Its name.
    pub way: String,
    /// What it is.
    pub what: String,
    /// Each depth.
    pub cells: Vec<BlkCell>,
}

/// A way with so many reads in flight.
#[derive(Debug, Clone, Serialize)]
pub struct BlkCell {
    /// Reads in flight at once.
    pub depth: u16,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// Over rounds.
    pub reads_per_second: Option<Summary>,
    /// In a second of a CPU that the reading thread had; what interrupts take elsewhere is not in it.
    pub reads_per_cpu_second: Option<Summary>,
    /// From beginning a read to having its data.
    pub latency: Option<Latency>,
}

impl BlkCell {
    pub(super) fn absent(depth: u16, why: String) -> Self {
        Self { depth, absent: Some(why), reads_per_second: None, reads_per_cpu_second: None, latency: None }
    }
}
