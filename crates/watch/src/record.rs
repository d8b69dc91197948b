//! What was watched in a span of time.

use crate::completed::Completed;
use crate::hardware_counters::HardwareCount;
use crate::hook_cost::HookCost;
use crate::stacks::Stacks;
use crate::summary::{AdapterSummary, StageSummary};
use crate::watcher::Losses;
use serde::{Deserialize, Serialize};

/// The schema of a document with a [`Record`]. Its version increases when a field is removed or changes its meaning, not for new fields.
pub const SCHEMA: &str = "iotoll.watch/1";
/// Intervals of a [`Record`] at most. Later ones count in the sums only.
pub const INTERVALS_MAX: usize = 10_000;

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// Seconds from the first reading to the last, or to the end of watching where a part of the time was counted.
    pub seconds: f64,
    /// `None` if it was counted all the time. Otherwise sums of calls and their times are estimates: each window stands for a longer time
    /// ([`Interval::stands_for_s`]), and what it says of an I/O is multiplied by the I/O of all the time. What adapters completed is no
    /// estimate.
    pub part_time: Option<PartTime>,
    /// Why calls of the kernel were not counted; then adapters have only what they completed.
    pub uncounted: Option<String>,
    /// Whether the functions' parameters were taken to be those of Linux 6.1, since this kernel does not describe its own.
    pub assumes_parameters: bool,
    /// Functions of the kernel that were watched.
    pub functions: Vec<&'static str>,
    /// Those among them that were watched by probes, which miss calls that interrupt a probe without saying so.
    pub probed: Vec<&'static str>,
    /// Functions that the kernel has, but did not let be watched.
    pub unwatched: Vec<UnwatchedFunction>,
    /// Calls that were not counted.
    pub losses: Losses,
    /// Nanoseconds that watching took for a call, on average; `None` if it was not measured.
    pub program_ns: Option<f64>,
    /// The same by how functions are watched, where that happened.
    pub hooks: Vec<HookCost>,
    /// Calls of watched functions, also for adapters that are not shown.
    pub calls: u64,
    /// The adapters that did something, those whose mapping took the most CPU time first.
    pub adapters: Vec<AdapterSummary>,
    /// Counters of IOMMUs and PCIe root ports; empty if the machine has none, or the kernel no driver for them.
    pub hardware_counts: Vec<HardwareCount>,
    /// CPU time by stage from sampled call stacks; `None` if they were not asked for.
    pub stacks: Option<Stacks>,
    /// The course of time.
    pub intervals: Vec<Interval>,
}

/// Counting for a part of the time, so that it costs little.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartTime {
    /// The share of a core that watching might take.
    pub max_cores: f64,
    /// The share that it took: programs, and this process, which attaches and detaches them. Interrupts by which the kernel tells other
    /// CPUs of changed code are not in it.
    pub cores: f64,
    /// Seconds since it began.
    pub elapsed_s: f64,
    /// Of these, seconds that were counted.
    pub counted_s: f64,
}

/// A function that was not watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnwatchedFunction {
    /// Its name.
    pub function: &'static str,
    /// Why not.
    pub why: String,
}

/// A part of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Its end, in seconds since the first reading.
    pub end_s: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Seconds that it stands for in sums; more than its length where only a part of the time was counted. (0 in older documents.)
    #[serde(default)]
    pub stands_for_s: f64,
    /// Adapters that did something, also those that only completed I/O in the time that it stands for.
    pub adapters: Vec<Activity>,
}

/// What an adapter did in an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Activity {
    /// As in [`AdapterSummary::adapter`].
    pub adapter: String,
    /// What it completed.
    pub completed: Completed,
    /// What it completed in the time that the interval stands for ([`Interval::stands_for_s`]), as the kernel counts it all the time. `None`
    /// while that time goes on, and in older documents.
    #[serde(default)]
    pub completed_in_period: Option<Completed>,
    /// What the kernel mapped for it; `None` where nothing could be counted ([`Record::uncounted`]).
    pub mapping: Option<Mapping>,
}

/// What the kernel mapped for an adapter in an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mapping {
    /// Calls that mapped memory.
    pub maps: u64,
    /// Bytes that they mapped; `None` if some did not say it, as with scatter lists.
    pub mapped_bytes: Option<u64>,
    /// Calls that unmapped memory.
    pub unmaps: u64,
    /// IOVAs that were allocated.
    pub iovas: u64,
    /// Calls that wrote entries of an I/O page table.
    pub table_writes: u64,
    /// Invalidations.
    pub invalidations: u64,
    /// Bytes that were mapped through bounce buffers.
    pub bounced_bytes: u64,
    /// CPU nanoseconds of mapping.
    pub ns: u64,
    /// The same by stage.
    pub stages: Vec<StageSummary>,
}

/// How many times what was counted in so many seconds counts, where it stands for others.
pub(crate) fn weight(stands_for_s: f64, seconds: f64) -> f64 {
    let weight = stands_for_s / seconds;
    if weight > 1.0 && weight.is_finite() { weight } else { 1.0 }
}

impl Interval {
    /// How many times it counts in sums.
    pub fn weight(&self) -> f64 {
        weight(self.stands_for_s, self.seconds)
    }

    /// The I/O of an adapter of it in the time that it stands for, of the kind that all of the adapter's is counted by. In older documents it is
    /// estimated from the window.
    pub fn io_of_period(&self, activity: &Activity, all: &Completed) -> f64 {
        match &activity.completed_in_period {
            Some(completed) => completed.io_of_kind(all) as f64,
            None => self.weight() * activity.completed.io_of_kind(all) as f64,
        }
    }
}

impl Mapping {
    /// CPU nanoseconds without what watching added, if that is known.
    pub fn net_ns(&self) -> Option<u64> {
        self.stages.iter().map(StageSummary::net_ns).try_fold(0, |sum: u64, ns| Some(sum.saturating_add(ns?)))
    }
}
