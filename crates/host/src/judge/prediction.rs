//! What a change of road is predicted to do to an I/O.

use serde::Serialize;
use std::collections::BTreeMap;
use toll::{Event, Evidence, Road};

/// The difference between two toll sheets of one machine and kernel, the nearest to the host that there
/// are. It is in instructions and events per I/O, not in time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The difference, in words.
    pub what: String,
    /// Which sheets they are and what is different on this host, in words.
    pub sheets: String,
    /// The workload.
    pub workload: String,
    /// The driver it was measured with.
    pub driver: String,
    /// On the road that the adapter is on.
    pub now: Pays,
    /// On the road that the remedy leads to.
    pub then: Pays,
    /// How far the sheets are from the host.
    pub distance: Distance,
    /// How the sheets were obtained.
    pub evidence: Evidence,
}

/// What an I/O pays on a road.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pays {
    /// The sheet's preset.
    pub preset: String,
    /// The road.
    pub road: Road,
    /// Instructions per I/O, by the median.
    pub instructions: f64,
    /// Events per I/O, by the mean, of the kinds that can be compared.
    pub events: BTreeMap<Event, f64>,
}

/// How far sheets are from a host, the worst first. The architecture is always the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
