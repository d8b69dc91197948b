//! Use of a host's CPUs between two points in time.

use super::stage::Stage;
use super::translator::Lookups;
use crate::replications::Replications;
use des::{Span, Time, Usage};
use dma::DmaCounters;
use serde::Serialize;
use toll::Estimate;

/// Time and counts spent since the start.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(super) at: Time,
    pub(super) busy: Span,
    pub(super) stages: [Span; 5],
    pub(super) locks: Vec<Usage>,
    /// Integrals over time of the number of cores with 0, 1, ... busy hardware threads.
    pub(super) cores_by_busy_ps: Vec<u128>,
    pub(super) lookups: Option<Lookups>,
    /// Busy time of the IOMMU with its invalidation queue.
    pub(super) commands: Option<Span>,
    pub(super) counters: DmaCounters,
    pub(super) refused: u64,
}

/// Use of a host's CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUsage {
    /// Mean number of busy hardware threads.
    pub busy_cpus: f64,
    /// The same by stage, in the order of [`Stage::ALL`].
    pub busy_cpus_by_stage: [f64; 5],
    /// Mean number of cores with 0, 1, ... busy hardware threads.
    pub cores_by_busy_threads: Vec<f64>,
    /// Share of time in which each lock was held.
    pub lock_busy_shares: Vec<f64>,
    /// Mean number of hardware threads waiting for each lock.
    pub lock_waiting_cpus: Vec<f64>,
    /// Lock acquisitions per second.
    pub locked_per_second: f64,
    /// Mean time an acquisition waits.
    pub lock_wait_mean: Span,
    /// Hypercalls per second.
    pub hypercalls_per_second: f64,
    /// Waits for invalidations per second.
    pub invalidations_per_second: f64,
    /// Failed mappings, since the start.
    pub mappings_refused: u64,
    /// Use of the IOMMU hardware, if modelled.
    pub iommu: Option<IommuUsage>,
}

/// Use of a host's IOMMU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuUsage {
    /// Page lookups per second.
    pub lookups_per_second: f64,
    /// Share of lookups that missed the IOTLB.
    pub miss_share: f64,
    /// Busy share of the page walker.
    pub walker_busy_share: f64,
    /// Share of time in which the IOMMU executed queued invalidations; `None` without a queue.
    pub queue_busy_share: Option<f64>,
    /// Lookups that hit a stale entry, since the start.
    pub stale_uses: u64,
    /// Lookups that were blocked, since the start.
    pub blocked: u64,
}

/// Use of a host's CPUs, for reports and JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpusAnswer {
    /// Mean number of busy hardware threads.
    pub busy_cpus: Estimate,
    /// The same by stage.
    pub stages: Vec<StageAnswer>,
    /// Hypercalls per second.
    pub hypercalls_per_second: Estimate,
    /// Waits for invalidations per second.
    pub invalidations_per_second: Estimate,
    /// Mean time a lock acquisition waits.
    pub lock_wait_mean_ns: Estimate,
    /// Failed mappings of all runs.
    pub mappings_refused: u64,
    /// Use of the IOMMU hardware, if modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuAnswer>,
}

/// Use of a host's IOMMU, for reports and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IommuAnswer {
    /// Page lookups per second.
    pub lookups_per_second: f64,
    /// Share of lookups that missed the IOTLB.
    pub miss_share: f64,
    /// Lookups that hit a stale entry, of all runs.
    pub stale_uses: u64,
}

/// CPU time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageAnswer {
    /// Name of the stage.
    pub name: &'static str,
    /// Mean number of hardware threads in it.
    pub busy_cpus: f64,
}

impl Counts {
    /// The use since an earlier point.
    pub(crate) fn since(&self, from: &Self) -> CpuUsage {
        let elapsed = self.at.since(from.at).unwrap_or_default().as_ps_f64();
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / elapsed;
        let per_second = |from: u64, to: u64| (to - from) as f64 * 1e12 / elapsed;
        let locks = || from.locks.iter().zip(&self.locks);
        let taken: u64 = locks().map(|(from, to)| to.arrivals - from.arrivals).sum();
        let waited: u128 = locks().map(|(from, to)| to.waited_ps - from.waited_ps).sum();
        let held = locks().map(|(from, to)| (to.busy_ps - from.busy_ps) as f64 / elapsed);
        let waiting = locks().map(|(from, to)| (to.queue_ps - from.queue_ps) as f64 / elapsed);
        let cores = from.cores_by_busy_ps.iter().zip(&self.cores_by_busy_ps);
        CpuUsage {
            busy_cpus: share(from.busy, self.busy),
            busy_cpus_by_stage: std::array::from_fn(|stage| share(from.stages[stage], self.stages[stage])),
            cores_by_busy_threads: cores.map(|(from, to)| (to - from) as f64 / elapsed).collect(),
            lock_busy_shares: held.collect(),
            lock_waiting_cpus: waiting.collect(),
            locked_per_second: per_second(0, taken),
            lock_wait_mean: Span::from_ps_f64(waited as f64 / taken.max(1) as f64),
            hypercalls_per_second: per_second(from.counters.hypercalls, self.counters.hypercalls),
            invalidations_per_second: per_second(
                from.counters.invalidation_waits,
                self.counters.invalidation_waits,
            ),
            mappings_refused: self.refused,
            iommu: self.lookups.zip(from.lookups).map(|(lookups, before)| IommuUsage {
                lookups_per_second: per_second(before.all, lookups.all),
                miss_share: (lookups.missed - before.missed) as f64
                    / (lookups.all - before.all).max(1) as f64,
                walker_busy_share: share(before.walking, lookups.walking),
                queue_busy_share: self.commands.zip(from.commands).map(|(to, from)| share(from, to)),
                stale_uses: lookups.stale,
                blocked: lookups.blocked,
            }),
        }
    }

    /// The same with the counters of several mappings.
    pub(crate) fn with(self, counters: DmaCounters, refused: u64) -> Self {
        Self { counters, refused, ..self }
    }

    /// Busy share of a part since an earlier point.
    pub(crate) fn share_since(&self, from: &Self, busy: [Span; 2]) -> f64 {
        let elapsed = self.at.since(from.at).unwrap_or_default().as_ps_f64();
        (busy[1].as_ps_f64() - busy[0].as_ps_f64()) / elapsed
    }
}

impl CpuUsage {
    /// Share of time in which the busiest lock was held.
    pub fn lock_busy_share(&self) -> f64 {
        self.lock_busy_shares.iter().copied().fold(0.0, f64::max)
    }
}

impl CpusAnswer {
    /// Means over the runs; `of` is the use of the CPUs in one.
    pub(crate) fn of<Outcome>(runs: &Replications<Outcome>, of: impl Fn(&Outcome) -> &CpuUsage) -> Self {
        let stage = |(place, stage): (usize, &Stage)| StageAnswer {
            name: stage.words(),
            busy_cpus: runs.mean(|run| of(run).busy_cpus_by_stage[place]),
        };
        Self {
            busy_cpus: runs.estimate(|run| of(run).busy_cpus),
            stages: Stage::ALL.iter().enumerate().map(stage).collect(),
            hypercalls_per_second: runs.estimate(|run| of(run).hypercalls_per_second),
            invalidations_per_second: runs.estimate(|run| of(run).invalidations_per_second),
            lock_wait_mean_ns: runs.estimate(|run| of(run).lock_wait_mean.as_ns_f64()),
            mappings_refused: runs.iter().map(|run| of(run).mappings_refused).sum(),
            iommu: IommuAnswer::of(runs, |run| of(run).iommu),
        }
    }
}

impl IommuAnswer {
    fn of<Outcome>(
        runs: &Replications<Outcome>,
        of: impl Fn(&Outcome) -> Option<IommuUsage>,
    ) -> Option<Self> {
        of(runs.first())?;
        let mean = |value: fn(IommuUsage) -> f64| runs.mean(|run| of(run).map_or(0.0, value));
        Some(Self {
            lookups_per_second: mean(|iommu| iommu.lookups_per_second),
            miss_share: mean(|iommu| iommu.miss_share),
            stale_uses: runs.iter().filter_map(&of).map(|iommu| iommu.stale_uses).sum(),
        })
    }
}
