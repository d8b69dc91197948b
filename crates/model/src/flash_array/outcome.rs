//! What came of it.

use super::lock::LockKind;
use super::multipath::LogEntry;
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
    /// The host's CPUs.
    pub cpus: CpuUsage,
    /// Cores that were used, each by what its busy hardware threads get done of what all do.
    pub cores_used: f64,
    /// Instructions in a second, of the partition and of its hypervisor, without those that spin.
    pub instructions_per_second: [f64; 2],
    /// The locks, by kind, of which there are any.
    pub locks: Vec<LockUsage>,
    /// Of the time, when the busiest CPU was busy.
    pub busiest_cpu_share: f64,
    /// Of the time, when the busiest adapter's bus was, to memory and from it.
    pub bus_busy_shares: [f64; 2],
    /// Of the time, when the busiest cable was, to the array and from it.
    pub cable_busy_shares: [f64; 2],
    /// A module, on average.
    pub module_busy_share: f64,
    /// What happened to paths.
    pub log: Vec<LogEntry>,
    /// From beginning to end, with what was in flight when measuring ended brought to its end.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// How locks of a kind were used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LockUsage {
    /// Which.
    pub kind: LockKind,
    /// Of the time, when the busiest of them was held.
    pub busy_share: f64,
    /// Hardware threads that waited for any of them, on average.
    pub waiting_cpus: f64,
}

/// Reads and writes that threads have got.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Served {
    /// In a second.
    pub per_second: f64,
    /// From a thread's first instruction for one to when it has it.
    pub latency_mean: Span,
    /// What half of them took at most.
    pub latency_p50: Span,
    /// What 99 of 100 did.
    pub latency_p99: Span,
}

/// What went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Reads and writes that were begun.
    pub asked: u64,
    /// And got.
    pub got: u64,
    /// Those that wait for a path at the end, for ever.
    pub waiting: u64,
    /// Commands that adapters were told of.
    pub commands: u64,
    /// Those that were answered,
    pub answered: u64,
    /// and those that were given up.
    pub given_up: u64,
    /// Mappings that were made.
    pub mappings: u64,
    /// Those that are left at the end.
    pub mappings_left: u64,
}

impl Outcome {
    /// Instructions of each, with the hypervisor's.
    pub fn instructions_each(&self) -> f64 {
        (self.instructions_per_second[0] + self.instructions_per_second[1]) / self.all.per_second
    }

    /// Reads and writes in a second for each core that was used.
    pub fn per_core(&self) -> f64 {
        self.all.per_second / self.cores_used
    }

    /// How busy each part was.
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

    /// The kind of lock that most time is waited for.
    pub fn most_waited(&self) -> Option<LockUsage> {
        self.locks.iter().copied().max_by(|a, b| a.waiting_cpus.total_cmp(&b.waiting_cpus))
    }
}
