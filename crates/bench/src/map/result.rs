//! What a run found out: the document `iotoll.bench-map/1`.

use crate::{Machine, Summary};
use dma::Bill;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use toll::Evidence;

/// The version of the document's layout. It grows when a field changes its meaning or goes; new fields leave it as it is.
pub const MAP_SCHEMA: &str = "iotoll.bench-map/1";

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Something else than an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected bytes from 1 to 2M, as 4096, 64K or 2M")]
pub struct BadBytes;

impl Bytes {
    /// The most that is mapped at once.
    pub const MAX: Self = Self(2 << 20);
}

impl FromStr for Bytes {
    type Err = BadBytes;

    fn from_str(text: &str) -> Result<Self, BadBytes> {
        let (digits, shift) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 10),
            None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
        };
        let number: u64 = digits.parse().map_err(|_| BadBytes)?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| (1..=Self::MAX.0).contains(bytes));
        bytes.map(Self).ok_or(BadBytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(formatter, "{} MiB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(formatter, "{} KiB", bytes >> 10),
            bytes => write!(formatter, "{bytes} B"),
        }
    }
}

/// What is measured, and how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MapSettings {
    /// Roads in this process; the host's own IOMMU is measured wherever it can be.
    pub roads: Vec<String>,
    /// Memory that is mapped at once, one column each.
    pub bytes: Vec<Bytes>,
    /// Rounds that count.
    pub rounds: usize,
    /// How long each is to take.
    pub round_ms: u64,
}

impl Default for MapSettings {
    /// All roads, in a few seconds.
    fn default() -> Self {
        Self {
            roads: super::roads().into_iter().map(str::to_owned).collect(),
            bytes: [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20].map(Bytes).to_vec(),
            rounds: 9,
            round_ms: 5,
        }
    }
}

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct MapBenchmark {
    /// [`MAP_SCHEMA`].
    pub schema: &'static str,
    /// The program and its version.
    pub made_by: String,
    /// The command line.
    pub command: Vec<String>,
    /// The day, YYYY-MM-DD.
    pub date: String,
    /// Where all figures come from.
    pub evidence: Evidence,
    /// What was measured on.
    pub machine: Machine,
    /// What was asked for.
    pub settings: MapSettings,
    /// Each road.
    pub rows: Vec<Row>,
    /// Why the host's own IOMMU was not measured.
    pub absent: Vec<String>,
    /// What casts doubt on the figures.
    pub warnings: Vec<String>,
}

/// A road.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Its name.
    pub road: String,
    /// What it is here.
    pub what: String,
    /// Each size.
    pub cells: Vec<Cell>,
}

/// A road with a size.
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
    pub(super) fn of(bill: &Bill) -> Self {
        let each = |count: u64| count as f64 / bill.mappings.max(1) as f64;
        Self {
            allocations: each(bill.allocations),
            table_entries: each(bill.table_entries),
            hypercalls: each(bill.hypercalls),
            invalidations: each(bill.invalidations),
            bounce_bytes: each(bill.bounce_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_told() {
        for (text, bytes, told) in [
            ("4096", 4096, "4 KiB"),
            ("64K", 65536, "64 KiB"),
            ("2m", 2 << 20, "2 MiB"),
            ("100", 100, "100 B"),
        ] {
            let read: Bytes = text.parse().unwrap();
            assert_eq!((read.0, read.to_string().as_str()), (bytes, told));
        }
        for text in ["", "K", "0", "-1", "3M", "99999999999999999999", "18446744073709551615K", "4G"] {
            assert_eq!(text.parse::<Bytes>(), Err(BadBytes), "{text}");
        }
    }
}
