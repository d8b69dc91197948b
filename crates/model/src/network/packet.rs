//! What the protocol hands to the driver, and the frames that it becomes.

use super::flow::{Protocol, TCP_HEADER_BYTES};
use super::frame::{Frame, FrameContent};
use super::network_adapter::NetworkAdapter;

/// A packet: an IP packet, or a segment of TCP that the adapter splits into frames (an `skb` of Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Packet {
    pub(super) flow: u32,
    /// Payload bytes of the application; of an acknowledgement, the bytes that it acknowledges.
    pub(super) bytes: u32,
    pub(super) what: FrameContent,
}

/// How packets become frames, and in how many pieces their memory is mapped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    protocol: Protocol,
    /// Application bytes of a full frame.
    pub(super) payload_bytes: u64,
}

/// Bytes of a header that is mapped separately from a stream's data.
const HEADER_BYTES: u64 = 128;

impl Framing {
    pub(super) fn new(protocol: Protocol, mtu_bytes: u64) -> Self {
        Self { protocol, payload_bytes: mtu_bytes - protocol.header_bytes() }
    }

    /// Number of frames of a packet.
    pub(super) fn frames(&self, packet: &Packet) -> u32 {
        match packet.what {
            FrameContent::Data => u64::from(packet.bytes).div_ceil(self.payload_bytes) as u32,
            FrameContent::Acknowledgement => 1,
        }
    }

    /// A frame of a packet. All but the last are full.
    pub(super) fn frame(&self, packet: &Packet, place: u32) -> Frame {
        let Packet { flow, bytes, what } = *packet;
        if what == FrameContent::Acknowledgement {
            return Frame { flow, bytes, ip_bytes: TCP_HEADER_BYTES as u32, what };
        }
        let left = u64::from(bytes).saturating_sub(u64::from(place) * self.payload_bytes);
        let bytes = left.min(self.payload_bytes);
        Frame { flow, bytes: bytes as u32, ip_bytes: (bytes + self.protocol.header_bytes()) as u32, what }
    }

    /// Whether a packet is written into its descriptor, so that nothing is mapped.
    pub(super) fn is_inline(&self, packet: &Packet, adapter: &NetworkAdapter) -> bool {
        self.frames(packet) == 1 && self.frame(packet, 0).ethernet_bytes() <= adapter.inline_bytes
    }

    /// Bytes of each piece of memory that is mapped to send a packet. Data of TCP has its headers in front, in a
    /// piece of their own; any other packet is one piece.
    pub(super) fn pieces(
        &self,
        packet: &Packet,
        adapter: &NetworkAdapter,
    ) -> impl Iterator<Item = u64> + use<> {
        let is_segment = packet.what == FrameContent::Data && self.protocol != Protocol::Udp;
        let (first, data) = match is_segment {
            true => (HEADER_BYTES, u64::from(packet.bytes)),
            false => (self.frame(packet, 0).ethernet_bytes(), 0),
        };
        let first = (!self.is_inline(packet, adapter)).then_some(first);
        let data = if first.is_some() { data } else { 0 };
        let most = adapter.fragment_bytes.unwrap_or(data).max(1);
        first.into_iter().chain((0..data).step_by(most as usize).map(move |from| (data - from).min(most)))
    }

    /// Descriptors of a packet: one for each piece, and one if it is inline.
    pub(super) fn descriptors(&self, packet: &Packet, adapter: &NetworkAdapter) -> u32 {
        self.pieces(packet, adapter).count().max(1) as u32
    }
}
