//! The document `iotoll.bench-memtype/1` with the results of a run.

use super::access::Access;
use crate::bytes::Bytes;
use crate::head::Head;
use crate::summary::Summary;
use serde::Serialize;
use std::path::PathBuf;

/// The document's schema. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const MEMTYPE_SCHEMA: &str = "iotoll.bench-memtype/1";

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemtypeSettings {
    /// Sizes of the accessed memory, one column each.
    pub bytes: Vec<Bytes>,
    /// BARs to measure: files `resourceN` or `resourceN_wc` of adapters.
    pub bars: Vec<PathBuf>,
    /// Whether to store to BARs, too.
    pub bar_stores: bool,
    /// Whether to load from BARs whose adapter is bound to a driver.
    pub in_use: bool,
    /// Measured rounds.
    pub rounds: usize,
    /// Milliseconds of a round.
    pub round_ms: u64,
}

impl Default for MemtypeSettings {
    /// Ordinary memory, in a few seconds.
    fn default() -> Self {
        Self {
            bytes: [16 << 10, 256 << 10, 4 << 20, 64 << 20].map(Bytes).to_vec(),
            bars: Vec::new(),
            bar_stores: false,
            in_use: false,
            rounds: 9,
            round_ms: 5,
        }
    }
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemtypeBenchmark {
    /// The document's head, with the schema [`MEMTYPE_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// The settings of the run.
    pub settings: MemtypeSettings,
    /// The results of each memory.
    pub areas: Vec<Area>,
    /// Kinds of access that were not measured, with the reason.
    pub absent: Vec<String>,
}

/// The results of one memory.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Area {
    /// Its name: `memory`, or the BAR's file.
    pub name: String,
    /// Its memory type.
    pub kind: AreaKind,
    /// The results of each kind of access.
    pub rows: Vec<MemtypeRow>,
}

/// The memory type with which an area is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AreaKind {
    /// The process's ordinary memory: write-back.
    WriteBack,
    /// An adapter's memory, mapped through `resourceN`: uncached, on x86 UC-.
    Uncached,
    /// An adapter's memory, mapped through `resourceN_wc`: write-combining.
    WriteCombining,
}

impl AreaKind {
    /// A one-line description.
    pub fn words(self) -> &'static str {
        match self {
            Self::WriteBack => "ordinary memory of this process: write-back",
            Self::Uncached => {
                "an adapter's memory, mapped uncached (x86: UC-, which an MTRR could make write-combining)"
            }
            Self::WriteCombining => "an adapter's memory, mapped write-combining",
        }
    }
}

/// The results of one kind of access.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemtypeRow {
    /// The kind of access.
    pub access: Access,
    /// The results with each size.
    pub cells: Vec<MemtypeCell>,
}

/// The results of a kind of access with one size.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemtypeCell {
    /// The size of the accessed memory.
    pub bytes: Bytes,
    /// Time per access; `None` if the memory is smaller than this size.
    pub ns_per_access: Option<Summary>,
    /// Throughput in 10^9 bytes per second, by the median; `None` for dependent accesses.
    pub gigabytes_per_second: Option<f64>,
}
