//! Results of a simulation.

use super::Setup;
use crate::host::CpuUsage;
use crate::part::Part;
use crate::steady::MeasuredWindow;
use des::Span;

/// Results of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All jobs together.
    pub all: Served,
    /// Each job.
    pub jobs: Vec<Served>,
    /// Mean number of requests in flight.
    pub depth_mean: f64,
    /// Interrupts per second.
    pub interrupts_per_second: f64,
    /// Use of the host's CPUs. Its locks are those of the DMA path, then one per queue.
    pub cpus: CpuUsage,
    /// Busy share of the busiest CPU.
    pub busiest_cpu_share: f64,
    /// Busy share of the adapter's link towards memory.
    pub link_up_busy_share: f64,
    /// Busy share of the link from memory.
    pub link_down_busy_share: f64,
    /// Mean busy share of the dies.
    pub die_busy_share: f64,
    /// Mean busy share of the channels.
    pub channel_busy_share: f64,
    /// Mean share of queue entries in use.
    pub queue_busy_share: f64,
    /// The window that was measured.
    pub window: MeasuredWindow,
    /// Counts from start to end, including requests that finished after measuring.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// Completed requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// Requests per second.
    pub per_second: f64,
    /// Data rate, in 10^9 bytes per second.
    pub gigabytes_per_second: f64,
    /// Mean time from a thread's first instruction for a request until it has the result.
    pub latency_mean: Span,
    /// Median latency.
    pub latency_p50: Span,
    /// 99th percentile of the latency.
    pub latency_p99: Span,
    /// 99.9th percentile of the latency.
    pub latency_p99_9: Span,
}

/// Counts over the whole simulation. At the end, requests started equal those finished, and no mappings are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests started.
    pub asked: u64,
    /// Requests finished.
    pub got: u64,
    /// Commands submitted to the adapter.
    pub commands: u64,
    /// Commands that it completed.
    pub completions: u64,
    /// Bytes the adapter read from memory for writes.
    pub fetched_bytes: u64,
    /// Bytes it wrote to memory for reads.
    pub stored_bytes: u64,
    /// Mappings made.
    pub mappings: u64,
    /// Mappings left at the end.
    pub mappings_left: u64,
}

impl Outcome {
    /// Share of time in which the busiest lock was held: of the DMA path's locks, and of the queues' locks.
    pub fn lock_busy_shares(&self, setup: &Setup) -> [f64; 2] {
        let shares = &self.cpus.lock_busy_shares;
        let dma_path = (setup.host.dma_path.locks() as usize).min(shares.len());
        let (dma_path, queues) = shares.split_at(dma_path);
        [dma_path, queues].map(|all| all.iter().copied().fold(0.0, f64::max))
    }

    /// Busy share of each part.
    pub fn parts(&self, setup: &Setup) -> Vec<Part> {
        let [dma_path, queues] = self.lock_busy_shares(setup);
        let parts = [
            ("CPUs", self.cpus.busy_cpus / f64::from(setup.host.cpus.threads())),
            ("busiest CPU", self.busiest_cpu_share),
            ("lock of the mappings", dma_path),
            ("lock of a queue", queues),
            ("entries of the queues", self.queue_busy_share),
            ("link to memory", self.link_up_busy_share),
            ("link from memory", self.link_down_busy_share),
            ("dies", self.die_busy_share),
            ("channels", self.channel_busy_share),
        ];
        parts.into_iter().map(|(name, busy_share)| Part::new(name, busy_share)).collect()
    }
}
