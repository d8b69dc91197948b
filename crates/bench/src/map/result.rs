//! What a run found out: the document `iotoll.bench-map/2`.

use crate::Summary;
use crate::bytes::Bytes;
use crate::head::Head;
use dma::DmaCounters;
use serde::Serialize;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const MAP_SCHEMA: &str = "iotoll.bench-map/2";

/// What is measured, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MapSettings {
    /// DMA paths in this process; the host's own IOMMU is measured wherever it can be.
    pub dma_paths: Vec<String>,
    /// Memory that is mapped at once, one column each.
    pub bytes: Vec<Bytes>,
    /// Rounds that count.
    pub rounds: usize,
    /// How long each is to take.
    pub round_ms: u64,
}

impl Default for MapSettings {
    /// All DMA paths, in a few seconds.
    fn default() -> Self {
        Self {
            dma_paths: super::dma_paths().into_iter().map(str::to_owned).collect(),
            bytes: [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20].map(Bytes).to_vec(),
            rounds: 9,
            round_ms: 5,
        }
    }
}

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct MapBenchmark {
    /// What it is, of [`MAP_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// What was asked for.
    pub settings: MapSettings,
    /// Each DMA path.
    pub rows: Vec<Row>,
    /// Why the host's own IOMMU was not measured.
    pub absent: Vec<String>,
}

/// A DMA path.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub dma_path: String,
    /// What it is here.
    pub what: String,
    /// Each size.
    pub cells: Vec<Cell>,
}

/// A DMA path with a size.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// Memory that is mapped at once.
    pub bytes: Bytes,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// Time of mapping and unmapping it.
    pub ns_per_pair: Option<Summary>,
    /// What was done besides executing instructions.
    pub per_pair: PerPair,
}

/// What one mapping and its unmapping have done, on average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PerPair {
    /// Ranges of bus addresses allocated.
    pub allocations: f64,
    /// Entries of a translation table written and cleared.
    pub table_entries: f64,
    /// Calls of the hypervisor, or of the operating system.
    pub hypercalls: f64,
    /// Invalidation commands.
    pub invalidations: f64,
    /// Bytes copied to and from bounce buffers.
    pub bounce_bytes: f64,
}

impl PerPair {
    pub(super) fn of(counters: &DmaCounters) -> Self {
        let each = |count: u64| count as f64 / counters.mappings.max(1) as f64;
        Self {
            allocations: each(counters.allocations),
            table_entries: each(counters.table_entries),
            hypercalls: each(counters.hypercalls),
            invalidations: each(counters.invalidations),
            bounce_bytes: each(counters.bounce_bytes),
        }
    }
}
