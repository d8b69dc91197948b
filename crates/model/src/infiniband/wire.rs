//! Ports, cables and the switch between adapters.

use des::Span;

/// A link of InfiniBand with its switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// Bits in a second without those of the line code: 8 * 10^9 of 4X at single data rate.
    pub bits_per_second: f64,
    /// Share that credits, skips and what else is not packets take, 0 to 1.
    pub overhead_share: f64,
    /// Payload of a packet at most.
    pub mtu_bytes: u64,
    /// From an adapter to another, besides a packet's own length: both cables and the switch, which lets packets through as they come.
    pub latency: Span,
}

/// Of every packet: local route header 8, base transport header 12, both checksums 6, delimiters 2 (InfiniBand Architecture
/// Specification, volume 1, release 1.2, 2004).
const HEADER_BYTES: u64 = 28;
/// The extended header of RDMA.
const RDMA_BYTES: u64 = 16;
/// That of an acknowledgement.
const ACKNOWLEDGEMENT_BYTES: u64 = 4;

impl Wire {
    /// Bytes on the wire of a packet of data; the first of RDMA says where it goes.
    pub(super) fn data_bytes(&self, payload: u64, is_first_of_rdma: bool) -> u64 {
        payload + HEADER_BYTES + if is_first_of_rdma { RDMA_BYTES } else { 0 }
    }

    /// Bytes of a request to read.
    pub(super) fn request_bytes(&self) -> u64 {
        HEADER_BYTES + RDMA_BYTES
    }

    /// Bytes of an acknowledgement.
    pub(super) fn acknowledgement_bytes(&self) -> u64 {
        HEADER_BYTES + ACKNOWLEDGEMENT_BYTES
    }

    /// How long bytes take.
    pub(super) fn time_of(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * 8e12 / (self.bits_per_second * (1.0 - self.overhead_share)))
    }
}
