//! Results of a simulation.

use super::lock::LockKind;
use super::multipath::LogEntry;
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
    /// Use of the host's CPUs.
    pub cpus: CpuUsage,
    /// Cores used; a partly busy SMT core counts by its throughput relative to all its threads busy.
    pub cores_used: f64,
    /// Instructions per second of the partition, and of its hypervisor, without spinning.
    pub instructions_per_second: [f64; 2],
    /// Locks, by kind.
    pub locks: Vec<LockUsage>,
    /// Busy share of the busiest CPU.
    pub busiest_cpu_share: f64,
    /// Busy shares of the busiest adapter's bus, to memory and from memory.
    pub bus_busy_shares: [f64; 2],
    /// Busy shares of the busiest cable, to the array and from the array.
    pub cable_busy_shares: [f64; 2],
    /// Mean busy share of the modules.
    pub module_busy_share: f64,
    /// The error log of paths.
    pub log: Vec<LogEntry>,
    /// The window that was measured.
    pub window: MeasuredWindow,
    /// Counts from start to end, including requests that finished after measuring.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// Use of one kind of lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockUsage {
    /// The kind.
    pub kind: LockKind,
    /// Share of time in which the busiest of them was held.
    pub busy_share: f64,
    /// Mean number of hardware threads waiting for any of them.
    pub waiting_cpus: f64,
}

/// Completed requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// Requests per second.
    pub per_second: f64,
    /// Mean time from a thread's first instruction for a request until it has the result.
    pub latency_mean: Span,
    /// Median latency.
    pub latency_p50: Span,
    /// 99th percentile of the latency.
    pub latency_p99: Span,
}

/// Counts over the whole simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Requests started.
    pub asked: u64,
    /// Requests finished.
    pub got: u64,
    /// Requests that wait for a path for ever.
    pub waiting: u64,
    /// Commands submitted to adapters.
    pub commands: u64,
    /// Commands that completed.
    pub answered: u64,
    /// Commands that failed because a link was lost.
    pub given_up: u64,
    /// Mappings made.
    pub mappings: u64,
    /// Mappings left at the end.
    pub mappings_left: u64,
}

impl Outcome {
    /// Instructions per request, including the hypervisor's.
    pub fn instructions_each(&self) -> f64 {
        (self.instructions_per_second[0] + self.instructions_per_second[1]) / self.all.per_second
    }

    /// Requests per second and core used.
    pub fn per_core(&self) -> f64 {
        self.all.per_second / self.cores_used
    }

    /// Busy share of each part.
    pub fn parts(&self) -> Vec<Part> {
        let locks = self.locks.iter().map(|lock| (lock.kind.words(), lock.busy_share));
        let others = [
            ("busiest CPU", self.busiest_cpu_share),
            ("bus to memory", self.bus_busy_shares[0]),
            ("bus from memory", self.bus_busy_shares[1]),
            ("cable to the array", self.cable_busy_shares[0]),
            ("cable from the array", self.cable_busy_shares[1]),
            ("flash modules", self.module_busy_share),
        ];
        locks.chain(others).map(|(name, busy_share)| Part::new(name, busy_share)).collect()
    }

    /// The kind of lock with the most waiting.
    pub fn most_waited(&self) -> Option<LockUsage> {
        self.locks.iter().copied().max_by(|a, b| a.waiting_cpus.total_cmp(&b.waiting_cpus))
    }
}
