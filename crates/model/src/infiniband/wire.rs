//! Ports, cables, and the switch.

use des::Span;

/// Parameters of an InfiniBand link and its switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wire {
    /// Data rate in bits per second after line coding: 8 * 10^9 for 4X SDR.
    pub bits_per_second: f64,
    /// Share used by flow control credits and skips, 0 to 1.
    pub overhead_share: f64,
    /// Largest payload of a packet (path MTU).
    pub mtu_bytes: u64,
    /// Latency between two adapters: both cables and the cut-through switch, without the packet's duration.
    pub latency: Span,
}

/// Of every packet: local route header 8, base transport header 12, both checksums 6, delimiters 2 (InfiniBand Architecture
/// Specification, volume 1, release 1.2, 2004).
const HEADER_BYTES: u64 = 28;
/// Extended header of RDMA.
const RDMA_BYTES: u64 = 16;
/// Extended header of an acknowledgement.
const ACKNOWLEDGEMENT_BYTES: u64 = 4;

impl Wire {
    /// Bytes of a data packet on the wire. The first packet of an RDMA operation has an extended header.
    pub(super) fn data_bytes(&self, payload: u64, is_first_of_rdma: bool) -> u64 {
        payload + HEADER_BYTES + if is_first_of_rdma { RDMA_BYTES } else { 0 }
    }

    /// Bytes of an RDMA read request.
    pub(super) fn request_bytes(&self) -> u64 {
        HEADER_BYTES + RDMA_BYTES
    }

    /// Bytes of an acknowledgement.
    pub(super) fn acknowledgement_bytes(&self) -> u64 {
        HEADER_BYTES + ACKNOWLEDGEMENT_BYTES
    }

    /// Duration on the wire.
    pub(super) fn time_of(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * 8e12 / (self.bits_per_second * (1.0 - self.overhead_share)))
    }
}
