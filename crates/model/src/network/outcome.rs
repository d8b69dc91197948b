//! What came of it.

use super::Setup;
use super::host::Host;
use crate::experiment::Part;
use des::Span;
use dma::Bill;

/// What a CPU does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Sockets, protocols, driver, interrupts, the application.
    Stack,
    /// The mapping layer's own instructions.
    Mapping,
    /// The hypervisor's, called by it.
    Hypercall,
    /// Waits for the IOMMU to forget.
    Invalidation,
    /// Waits for a lock, or for its cache line.
    Lock,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stack, Self::Mapping, Self::Hypercall, Self::Invalidation, Self::Lock];

    /// The words used for it everywhere.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stack => "sockets, protocols and driver",
            Self::Mapping => "mapping",
            Self::Hypercall => "hypercalls",
            Self::Invalidation => "waiting for invalidations",
            Self::Lock => "waiting for locks",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Exchanges in a second; for streams, writes of the client.
    pub operations_per_second: f64,
    /// Bytes of applications that were read in a second, both ways together, in 10^9 bits.
    pub gigabits_per_second: f64,
    /// An exchange's time, from its beginning to its end; none for streams.
    pub latency_mean: Span,
    /// What 99 of 100 took at most.
    pub latency_p99: Span,
    /// The client and the server.
    pub hosts: [HostUsage; 2],
    /// From beginning to end, with what was under way when measuring ended brought to its end.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// What went through: if all is well, what was written was read, and what was sent was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes that applications wrote, but for those of streams that don't fill a frame yet.
    pub written_bytes: u64,
    /// And read.
    pub read_bytes: u64,
    /// Frames that went onto the wire.
    pub sent_frames: u64,
    /// And came to a ring.
    pub received_frames: u64,
    /// Mappings that are left at the end, those of buffers that frames are received into among them.
    pub mappings_left: u64,
    /// Buffers that frames are received into.
    pub receive_mappings: u64,
}

/// How a host was used.
#[derive(Debug, Clone, PartialEq)]
pub struct HostUsage {
    /// Hardware threads that were busy, on average.
    pub busy_cpus: f64,
    /// The same by what they did, in the order of [`Stage::ALL`].
    pub busy_cpus_by_stage: [f64; 5],
    /// Of the time, when its locks were held: the busiest of them.
    pub lock_busy_share: f64,
    /// How often a lock was taken, in a second.
    pub locked_per_second: f64,
    /// How long each waited for one, on average.
    pub lock_wait_mean: Span,
    /// Of the time, when the wire from here was busy.
    pub wire_busy_share: f64,
    /// Of the time, when the adapter's link towards memory was.
    pub link_up_busy_share: f64,
    /// And from memory.
    pub link_down_busy_share: f64,
    /// Calls of the hypervisor in a second.
    pub hypercalls_per_second: f64,
    /// Invalidations that were waited for in a second.
    pub invalidations_per_second: f64,
    /// What its mappings did, from beginning to end of measuring.
    pub bill: Bill,
    /// Mappings that could not be made.
    pub mappings_refused: u64,
}

const NAMES: [&str; 2] = ["client", "server"];

impl Outcome {
    /// How busy each part was.
    pub fn parts(&self, setup: &Setup) -> Vec<Part> {
        let of = |((usage, name), host): ((&HostUsage, &str), &Host)| {
            [
                (format!("CPUs of the {name}"), usage.busy_cpus / f64::from(host.cpus.threads())),
                (format!("lock of the {name}'s mappings"), usage.lock_busy_share),
                (format!("wire from the {name}"), usage.wire_busy_share),
                (format!("link to the {name}'s memory"), usage.link_up_busy_share),
                (format!("link from the {name}'s memory"), usage.link_down_busy_share),
            ]
        };
        let all = self.hosts.iter().zip(NAMES).zip(&setup.hosts).flat_map(of);
        all.map(|(name, busy_share)| Part::new(name, busy_share)).collect()
    }
}
