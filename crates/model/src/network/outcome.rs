//! What came of it.

use super::Setup;
use super::host::Host;
use crate::host::CpuUsage;
use crate::part::Part;
use des::Span;

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
    /// From beginning to end, with what was in flight when measuring ended brought to its end.
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
    /// Its CPUs.
    pub cpus: CpuUsage,
    /// Of the time, when the wire from here was busy.
    pub wire_busy_share: f64,
    /// Of the time, when the adapter's link towards memory was.
    pub link_up_busy_share: f64,
    /// And from memory.
    pub link_down_busy_share: f64,
}

const NAMES: [&str; 2] = ["client", "server"];

impl Outcome {
    /// How busy each part was.
    pub fn parts(&self, setup: &Setup) -> Vec<Part> {
        let of = |((usage, name), host): ((&HostUsage, &str), &Host)| {
            let iommu = usage.cpus.iommu;
            let walker = iommu.map(|iommu| (format!("walks of the {name}'s IOMMU"), iommu.walker_busy_share));
            let queue = iommu.and_then(|iommu| iommu.queue_busy_share);
            let queue = queue.map(|share| (format!("invalidation queue of the {name}"), share));
            let known = [
                (format!("CPUs of the {name}"), usage.cpus.busy_cpus / f64::from(host.cpus.threads())),
                (format!("lock of the {name}'s mappings"), usage.cpus.lock_busy_share()),
                (format!("wire from the {name}"), usage.wire_busy_share),
                (format!("link to the {name}'s memory"), usage.link_up_busy_share),
                (format!("link from the {name}'s memory"), usage.link_down_busy_share),
            ];
            known.into_iter().chain(walker).chain(queue)
        };
        let all = self.hosts.iter().zip(NAMES).zip(&setup.hosts).flat_map(of);
        all.map(|(name, busy_share)| Part::new(name, busy_share)).collect()
    }
}
