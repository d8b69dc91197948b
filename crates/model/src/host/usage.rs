//! How a host's CPUs were used between two points of time.

use super::stage::Stage;
use super::translator::Lookups;
use des::{Span, Time, Usage};
use dma::DmaCounters;
use serde::Serialize;

/// What a host's CPUs have spent up to a time.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    pub(super) at: Time,
    pub(super) busy: Span,
    pub(super) stages: [Span; 5],
    pub(super) locks: Vec<Usage>,
    /// Cores of which 0, 1, ... hardware threads are busy, times how long.
    pub(super) cores_by_busy_ps: Vec<u128>,
    pub(super) lookups: Option<Lookups>,
    /// How long the IOMMU was busy with commands of its queue.
    pub(super) commands: Option<Span>,
    pub(super) counters: DmaCounters,
    pub(super) refused: u64,
}

/// How a host's CPUs were used.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuUsage {
    /// Hardware threads that were busy, on average.
    pub busy_cpus: f64,
    /// The same by what they did, in the order of [`Stage::ALL`].
    pub busy_cpus_by_stage: [f64; 5],
    /// Cores of which 0, 1, ... hardware threads were busy, on average.
    pub cores_by_busy_threads: Vec<f64>,
    /// Of the time, when each lock was held.
    pub lock_busy_shares: Vec<f64>,
    /// Hardware threads that waited for each lock, on average.
    pub lock_waiting_cpus: Vec<f64>,
    /// How often a lock was taken, in a second.
    pub locked_per_second: f64,
    /// How long each waited for one, on average.
    pub lock_wait_mean: Span,
    /// Calls of the hypervisor in a second.
    pub hypercalls_per_second: f64,
    /// Invalidations that were waited for in a second.
    pub invalidations_per_second: f64,
    /// Mappings that could not be made, since the beginning of time.
    pub mappings_refused: u64,
    /// The hardware's side of its IOMMU, where that is modelled.
    pub iommu: Option<IommuUsage>,
}

/// How a host's IOMMU was used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuUsage {
    /// Pages looked up for the adapter in a second.
    pub lookups_per_second: f64,
    /// Of them, those that a table was walked for.
    pub miss_share: f64,
    /// Of the time, when it could begin no walk, as it had begun one.
    pub walker_busy_share: f64,
    /// Of the time, when it was busy with invalidations of its queue; nothing without a queue.
    pub queue_busy_share: Option<f64>,
    /// Lookups that were led by what it remembered of a mapping that was gone, since the beginning of time.
    pub stale_uses: u64,
    /// And those that led to nothing.
    pub blocked: u64,
}

/// The same as people and programs are told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpusAnswer {
    /// Hardware threads that were busy, on average.
    pub busy_cpus: f64,
    /// The same by what they did.
    pub stages: Vec<StageAnswer>,
    /// Calls of the hypervisor in a second.
    pub hypercalls_per_second: f64,
    /// Invalidations that were waited for in a second.
    pub invalidations_per_second: f64,
    /// How long each waited for a lock, on average.
    pub lock_wait_mean_ns: f64,
    /// Mappings that could not be made.
    pub mappings_refused: u64,
    /// The hardware's side of its IOMMU, where that is modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<IommuAnswer>,
}

/// How a host's IOMMU was used, as people and programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IommuAnswer {
    /// Pages looked up for the adapter in a second.
    pub lookups_per_second: f64,
    /// Of them, those that a table was walked for.
    pub miss_share: f64,
    /// Lookups that were led by what it remembered of a mapping that was gone.
    pub stale_uses: u64,
}

/// What CPUs did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageAnswer {
    /// What.
    pub name: &'static str,
    /// Hardware threads that did it, on average.
    pub busy_cpus: f64,
}

impl Counts {
    /// How they were used since then.
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

    /// The same with what several mappings have done.
    pub(crate) fn with(self, counters: DmaCounters, refused: u64) -> Self {
        Self { counters, refused, ..self }
    }

    /// Of the time since then, how much a part was busy for this long.
    pub(crate) fn share_since(&self, from: &Self, busy: [Span; 2]) -> f64 {
        let elapsed = self.at.since(from.at).unwrap_or_default().as_ps_f64();
        (busy[1].as_ps_f64() - busy[0].as_ps_f64()) / elapsed
    }
}

impl CpuUsage {
    /// Of the time, when the busiest of its locks was held.
    pub fn lock_busy_share(&self) -> f64 {
        self.lock_busy_shares.iter().copied().fold(0.0, f64::max)
    }
}

impl From<&CpuUsage> for CpusAnswer {
    fn from(usage: &CpuUsage) -> Self {
        let stages = Stage::ALL.iter().zip(usage.busy_cpus_by_stage);
        Self {
            busy_cpus: usage.busy_cpus,
            stages: stages.map(|(stage, busy_cpus)| StageAnswer { name: stage.words(), busy_cpus }).collect(),
            hypercalls_per_second: usage.hypercalls_per_second,
            invalidations_per_second: usage.invalidations_per_second,
            lock_wait_mean_ns: usage.lock_wait_mean.as_ns_f64(),
            mappings_refused: usage.mappings_refused,
            iommu: usage.iommu.map(|iommu| IommuAnswer {
                lookups_per_second: iommu.lookups_per_second,
                miss_share: iommu.miss_share,
                stale_uses: iommu.stale_uses,
            }),
        }
    }
}
