//! What a change of DMA path is predicted to do to an I/O.

use super::mapping_counts::MappingCounts;
use serde::Serialize;
use std::collections::BTreeMap;
use toll::{DmaPath, Estimate, Event, Evidence, Expense};

/// The load that shares of a CPU are told for: a disk or a network queue at work, far from what one CPU can do.
pub const LOAD_PER_SECOND: u32 = 100_000;

/// The difference between two toll sheets of one machine and kernel, the nearest to the host that there
/// are: in instructions and events per I/O, and in time by a price list.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The difference, in words.
    pub what: String,
    /// Which sheets they are and what is different on this host, in words.
    pub sheets: String,
    /// The workload.
    pub workload: String,
    /// The driver it was measured with.
    pub driver: String,
    /// On the DMA path that the adapter is on.
    pub now: IoCost,
    /// On the DMA path that the remedy leads to.
    pub then: IoCost,
    /// What is saved per I/O.
    pub saved: Saved,
    /// How far the sheets are from the host.
    pub distance: Distance,
    /// How the sheets were obtained.
    pub evidence: Evidence,
    /// The same in time; `None` without a price list of the sheets' architecture.
    pub time: Option<TimeGain>,
}

/// What a change of DMA path saves per I/O, by the means of the boots; negative if there is more.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    /// Instructions in the stages of DMA mapping.
    pub dma: Estimate,
    /// Instructions in all other stages: side effects, and chance.
    pub elsewhere: Estimate,
    /// Events, of the kinds that differ for certain and enough to be reported.
    pub events: BTreeMap<Event, Estimate>,
}

/// What a change of DMA path saves of a CPU's time, per I/O: counts at the prices of one platform. The adapter's own time
/// is not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeGain {
    /// The gain, in words.
    pub what: String,
    /// The platform, and each price that the gain rests on with where it comes from, in words.
    pub prices: String,
    /// The machine that the prices are of.
    pub platform: String,
    /// All that has a price, on the DMA path that the adapter is on.
    pub now_ns: f64,
    /// The same on the DMA path that the remedy leads to.
    pub then_ns: f64,
    /// What is saved, or negative, by what it is made of, each price with its evidence.
    pub saved: Expense,
    /// Half of the interval that chance between boots leaves for what is saved, as if all its parts erred to one side: 0 with a single
    /// boot.
    pub half_width_ns: f64,
    /// The load in I/Os a second that the next is told for.
    pub load_per_second: u32,
    /// Of one CPU's time, at this load.
    pub cpu_saved: f64,
}

/// What an I/O pays on a DMA path.
#[derive(Debug, Clone, PartialEq)]
pub struct IoCost {
    /// The sheet's preset.
    pub preset: String,
    /// The DMA path.
    pub dma_path: DmaPath,
    /// Instructions per I/O, by the mean.
    pub instructions: f64,
    /// Events per I/O, by the mean, of the kinds that can be compared.
    pub events: BTreeMap<Event, f64>,
    /// What of that is DMA mapping.
    pub mapping: MappingCounts,
}

/// How far sheets are from a host, the worst first. The architecture is always the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Distance {
    /// The IOMMU is of another kind, or the host's was not to be told.
    pub other_iommu: bool,
    /// POWER: the kernel writes entries by other hypercalls, or the host's were not to be told.
    pub other_tce_calls: bool,
    /// The adapter's driver is another, of the same class.
    pub other_driver: bool,
    /// Releases of Linux between the two kernels by their numbers, 5.19 and 6.0 being one apart; `None` if one
    /// of them is not known.
    pub kernel_releases: Option<u32>,
}

impl Distance {
    /// What sheets are chosen by: the least is the nearest. A driver decides how many mappings an I/O has, and
    /// so outweighs the kernel's release.
    pub(super) fn rank(self) -> (bool, bool, bool, u32) {
        let releases = self.kernel_releases.unwrap_or(u32::MAX);
        (self.other_iommu, self.other_tce_calls, self.other_driver, releases)
    }
}
