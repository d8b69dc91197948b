//! What came of it.

use super::Setup;
use crate::host::CpuUsage;
use crate::part::Part;
use des::Span;

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All jobs together.
    pub all: Served,
    /// Each of them.
    pub jobs: Vec<Served>,
    /// Reads and writes in flight, on average.
    pub depth_mean: f64,
    /// Interrupts in a second.
    pub interrupts_per_second: f64,
    /// The host's CPUs. Of its locks the DMA path's come first, then each queue's.
    pub cpus: CpuUsage,
    /// Of the time, when the busiest CPU was busy.
    pub busiest_cpu_share: f64,
    /// Of the time, when the adapter's link towards memory was.
    pub link_up_busy_share: f64,
    /// And from memory.
    pub link_down_busy_share: f64,
    /// A die, on average.
    pub die_busy_share: f64,
    /// A channel, on average.
    pub channel_busy_share: f64,
    /// Of the entries of all queues, those in use on average.
    pub queue_busy_share: f64,
    /// From beginning to end, with what was in flight when measuring ended brought to its end.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// Reads and writes that threads have got.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// In a second.
    pub per_second: f64,
    /// Their data, in 10^9 bytes in a second.
    pub gigabytes_per_second: f64,
    /// From a thread's first instruction for one to when it has it.
    pub latency_mean: Span,
    /// What half of them took at most.
    pub latency_p50: Span,
    /// What 99 of 100 did.
    pub latency_p99: Span,
    /// What 999 of 1,000 did.
    pub latency_p99_9: Span,
}

/// What went through: if all is well, what was asked for was got, and what was mapped was unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Reads and writes that were begun.
    pub asked: u64,
    /// And got.
    pub got: u64,
    /// Commands that the adapter was told of.
    pub commands: u64,
    /// And has completed.
    pub completions: u64,
    /// Bytes that the adapter read from memory for writes.
    pub fetched_bytes: u64,
    /// And wrote to it for reads.
    pub stored_bytes: u64,
    /// Mappings that were made.
    pub mappings: u64,
    /// Those that are left at the end.
    pub mappings_left: u64,
}

impl Outcome {
    /// Of the time, when the busiest of the DMA path's locks was held, and of the queues'.
    pub fn lock_busy_shares(&self, setup: &Setup) -> [f64; 2] {
        let shares = &self.cpus.lock_busy_shares;
        let dma_path = (setup.host.dma_path.locks() as usize).min(shares.len());
        let (dma_path, queues) = shares.split_at(dma_path);
        [dma_path, queues].map(|all| all.iter().copied().fold(0.0, f64::max))
    }

    /// How busy each part was.
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
