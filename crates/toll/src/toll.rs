//! The toll: the cost of one workload's I/Os.

use crate::{BootCounts, Event, Evidence, Spread, Stage, Tally, rows};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The toll of one workload.
///
/// It is counted in windows, each from the begin of an I/O (or of a batch of them) to its end. Counts are
/// per window unless they say otherwise; [`Toll::per_io`] makes them comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Toll {
    /// The workload's name, once per sheet: `nvme-read-4k`.
    pub workload: String,
    /// What it does, in words.
    pub what: String,
    /// The kernel's driver of the adapter.
    pub driver: String,
    /// Bytes that one I/O moves.
    pub bytes_per_io: u64,
    /// I/Os in a window.
    pub ios_per_window: NonZeroU32,
    /// Windows that were counted, of all boots together.
    pub windows: NonZeroU32,
    /// What was counted in each boot, in the order of the sheet's boots.
    pub boots: Vec<BootCounts>,
    /// Instructions per window.
    pub instructions: Spread,
    /// Instructions of the median window in user mode.
    pub user: u64,
    /// Instructions of the median window in the kernel.
    pub kernel: u64,
    /// Instructions of the median window by stage.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::StageRow<u64>>"))]
    pub stages: BTreeMap<Stage, u64>,
    /// Instructions of the median window by function, those of user mode among them.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::FunctionRow<u64>>"))]
    pub functions: BTreeMap<String, u64>,
    /// Events by kind. A kind that is not here was not counted on this machine; one that was counted and
    /// did not happen is here with zeros.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::EventRow>"))]
    pub events: BTreeMap<Event, Tally>,
    /// How it was obtained, and on what.
    pub evidence: Evidence,
}

impl Toll {
    /// Converts a count of one window to a count per I/O.
    pub fn per_io(&self, window_count: u64) -> f64 {
        window_count as f64 / f64::from(self.ios_per_window.get())
    }

    /// Instructions per I/O of some stages in each boot, by the mean of its windows.
    pub fn means_by_boot(&self, is_counted: impl Fn(Stage) -> bool) -> Vec<f64> {
        let total = |boot: &BootCounts| -> f64 {
            boot.stages.iter().filter(|(stage, _)| is_counted(**stage)).map(|(_, count)| *count as f64).sum()
        };
        self.boots.iter().map(|boot| total(boot) / self.ios(boot)).collect()
    }

    /// The number of I/Os of a boot.
    fn ios(&self, boot: &BootCounts) -> f64 {
        f64::from(self.ios_per_window.get()) * boot.windows.len() as f64
    }

    /// Instructions per I/O in each boot, by the median of its windows.
    pub fn medians_by_boot(&self) -> Vec<f64> {
        self.boots.iter().filter_map(BootCounts::median).map(|median| self.per_io(median)).collect()
    }

    /// Events of a kind per I/O in each boot, by the mean of its windows; no boots if they were not counted.
    pub fn events_by_boot(&self, event: Event) -> Vec<f64> {
        let mean = |boot: &BootCounts| Some(*boot.events.get(&event)? as f64 / self.ios(boot));
        self.boots.iter().filter_map(mean).collect()
    }

    /// Converts a total of all windows to the mean per I/O.
    pub fn mean_per_io(&self, total: u64) -> f64 {
        total as f64 / (f64::from(self.ios_per_window.get()) * f64::from(self.windows.get()))
    }
}
