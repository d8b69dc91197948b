//! The document `iotoll.bench-map/2` with the results of a run.

use crate::Summary;
use crate::bytes::Bytes;
use crate::head::Head;
use dma::DmaCounters;
use serde::Serialize;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const MAP_SCHEMA: &str = "iotoll.bench-map/2";

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapSettings {
    /// DMA paths modelled in this process. The host's own IOMMU is also measured, if possible.
    pub dma_paths: Vec<String>,
    /// Sizes of a mapping, one column each.
    pub bytes: Vec<Bytes>,
    /// Measured rounds.
    pub rounds: usize,
    /// Milliseconds of a round.
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

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MapBenchmark {
    /// The document's head, with the schema [`MAP_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: MapSettings,
    /// The results of each DMA path.
    pub rows: Vec<Row>,
    /// Why the host's own IOMMU was not measured.
    pub absent: Vec<String>,
}

/// The results of one DMA path.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Row {
    /// The DMA path's name.
    pub dma_path: String,
    /// A description of its model.
    pub what: String,
    /// The results with each size.
    pub cells: Vec<Cell>,
}

/// The results of a DMA path with one size.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// The size of a mapping.
    pub bytes: Bytes,
    /// Why it was not measured.
    pub absent: Option<String>,
    /// Time of one mapping and its unmapping.
    pub ns_per_pair: Option<Summary>,
    /// Operations of one mapping and its unmapping.
    pub per_pair: PerPair,
}

/// Operations of one mapping and its unmapping, on average.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerPair {
    /// Allocated IOVA ranges.
    pub allocations: f64,
    /// Entries of the translation table that were written or cleared.
    pub table_entries: f64,
    /// Hypercalls, or system calls.
    pub hypercalls: f64,
    /// Invalidation commands.
    pub invalidations: f64,
    /// Bytes copied to and from bounce buffers.
    pub bounce_bytes: f64,
}

impl PerPair {
    /// Averages over all mappings.
    pub(super) fn of(counters: &DmaCounters) -> Self {
        Self::of_pairs(counters, counters.mappings)
    }

    /// Averages over this number of pairs.
    pub(super) fn of_pairs(counters: &DmaCounters, pairs: u64) -> Self {
        let each = |count: u64| count as f64 / pairs.max(1) as f64;
        Self {
            allocations: each(counters.allocations),
            table_entries: each(counters.table_entries),
            hypercalls: each(counters.hypercalls),
            invalidations: each(counters.invalidations),
            bounce_bytes: each(counters.bounce_bytes),
        }
    }
}
