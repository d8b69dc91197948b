//! What a run found out: the document `iotoll.bench-memtype/1`.

use super::access::Access;
use crate::bytes::Bytes;
use crate::head::Head;
use crate::summary::Summary;
use serde::Serialize;
use std::path::PathBuf;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const MEMTYPE_SCHEMA: &str = "iotoll.bench-memtype/1";

/// What is measured, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemtypeSettings {
    /// How much memory is walked through, one column each.
    pub bytes: Vec<Bytes>,
    /// BARs: files `resourceN` or `resourceN_wc` of adapters.
    pub bars: Vec<PathBuf>,
    /// Whether BARs are written to, too.
    pub bar_stores: bool,
    /// Whether BARs are read that a driver works with.
    pub in_use: bool,
    /// Rounds that count.
    pub rounds: usize,
    /// How long each is to take.
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

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct MemtypeBenchmark {
    /// What it is, of [`MEMTYPE_SCHEMA`].
    #[serde(flatten)]
    pub head: Head,
    /// What was asked for.
    pub settings: MemtypeSettings,
    /// The memory that was measured.
    pub areas: Vec<Area>,
    /// What this CPU or this program can't do.
    pub absent: Vec<String>,
}

/// Memory of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Area {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: AreaKind,
    /// Each way of access.
    pub rows: Vec<MemtypeRow>,
}

/// What memory is, as far as this program knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AreaKind {
    /// The process's own, which CPUs cache: write-back.
    WriteBack,
    /// An adapter's, mapped through `resourceN`: the kernel asks for uncached, in x86's words UC-.
    Uncached,
    /// An adapter's, mapped through `resourceN_wc`: write-combining.
    WriteCombining,
}

impl AreaKind {
    /// In words.
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

/// A way of access.
#[derive(Debug, Clone, Serialize)]
pub struct MemtypeRow {
    /// Which.
    pub access: Access,
    /// Each size.
    pub cells: Vec<MemtypeCell>,
}

/// A way of access to so much memory.
#[derive(Debug, Clone, Serialize)]
pub struct MemtypeCell {
    /// Memory that is walked through.
    pub bytes: Bytes,
    /// What an access takes; nothing where the memory is smaller.
    pub ns_per_access: Option<Summary>,
    /// Bytes in a second, in 10^9, by the median; none where accesses wait for each other.
    pub gigabytes_per_second: Option<f64>,
}
