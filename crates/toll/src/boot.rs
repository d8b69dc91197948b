//! Boots of a measured machine, and what was counted in each.

use crate::{Event, Spread, Stage, rows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is different in one boot of a machine. None of it should matter for what an I/O costs, so the spread over boots shows how
/// certain a count is. The order of the workloads is shuffled by the seed, except in the first boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// The seed of the guest's random numbers, of the workloads' order and of the lengths of their warm-ups.
    pub seed: u64,
    /// The guest's memory, in MiB.
    pub memory_mib: u64,
}

/// What was counted for a workload in one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BootCounts {
    /// Instructions of each window, in the order of the windows' ends.
    pub windows: Vec<u64>,
    /// Instructions of all windows by stage.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::StageRow<u64>>"))]
    pub stages: BTreeMap<Stage, u64>,
    /// Events of all windows by kind, of the kinds that were counted.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::EventCountRow<u64>>"))]
    pub events: BTreeMap<Event, u64>,
}

impl BootCounts {
    /// The median instructions of a window, the lower of the middle two; `None` without windows.
    pub fn median(&self) -> Option<u64> {
        Spread::of(self.windows.clone()).map(|spread| spread.median)
    }
}

/// A program that ran workloads in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GuestProgram {
    /// Its name.
    pub name: String,
    /// SHA-256 of its file, in hexadecimal digits.
    pub sha256: String,
    /// The compilers that it names in its file, with their versions.
    pub compiler: String,
    /// The compiler's flags; empty if neither the lab compiled the program nor the program tells them.
    pub flags: Vec<String>,
}
