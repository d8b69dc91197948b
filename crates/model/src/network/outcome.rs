//! Results of a simulation.

use super::network_host::NetworkHost;
use super::{HOST_NAMES, Setup};
use crate::host::CpuUsage;
use crate::part::Part;
use crate::steady::MeasuredWindow;
use des::Span;

/// Results of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Exchanges per second; for streams, the client's writes.
    pub operations_per_second: f64,
    /// Application data read per second on both hosts, in 10^9 bits.
    pub gigabits_per_second: f64,
    /// Mean duration of an exchange. `None` for streams, and if no exchange ended.
    pub latency_mean: Option<Span>,
    /// 99th percentile of that.
    pub latency_p99: Option<Span>,
    /// Use of client and server.
    pub hosts: [HostUsage; 2],
    /// The window that was measured.
    pub window: MeasuredWindow,
    /// Counts from start to end, including what finished after measuring.
    pub totals: Totals,
    /// Events of the simulation.
    pub events: u64,
}

/// Counts over the whole simulation. At the end, bytes written equal bytes read, and frames sent equal frames
/// received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Bytes written by applications, without those of streams that still wait to fill a frame.
    pub written_bytes: u64,
    /// Bytes read by applications.
    pub read_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Frames received into a ring.
    pub received_frames: u64,
    /// Mappings left at the end, including those of receive buffers.
    pub mappings_left: u64,
    /// Mappings of receive buffers.
    pub receive_mappings: u64,
    /// Descriptors of send rings that are taken at the end: none.
    pub descriptors_left: u64,
    /// Most descriptors taken of any send ring.
    pub send_entries_max: u32,
    /// Most entries taken of any receive ring.
    pub receive_entries_max: u32,
    /// Packets in front of send rings and frames in front of adapters at the end: none.
    pub waiting_left: u64,
}

/// Use of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostUsage {
    /// Its CPUs.
    pub cpus: CpuUsage,
    /// Busy share of the wire, in the direction from this host.
    pub wire_busy_share: f64,
    /// Busy share of the adapter's link towards memory.
    pub link_up_busy_share: f64,
    /// Busy share of the link from memory.
    pub link_down_busy_share: f64,
    /// Share of time in which a send ring was full and packets waited in front of it, averaged over the send rings.
    pub send_stopped_share: f64,
    /// Share of time in which a receive ring was full and frames waited in front of the adapter.
    pub receive_paused_share: f64,
}

impl Outcome {
    /// Busy share of each part.
    pub fn parts(&self, setup: &Setup) -> Vec<Part> {
        let of = |((usage, name), host): ((&HostUsage, &str), &NetworkHost)| {
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
        let all = self.hosts.iter().zip(HOST_NAMES).zip(&setup.hosts).flat_map(of);
        all.map(|(name, busy_share)| Part::new(name, busy_share)).collect()
    }
}
