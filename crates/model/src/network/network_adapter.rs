//! The network adapter's parameters.

use super::flow::Protocol;
use crate::link::Link;
use des::Span;

/// Parameters of a network adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkAdapter {
    /// Its PCIe link.
    pub link: Link,
    /// Receive rings. All frames of a flow arrive in the same one.
    pub receive_rings: u32,
    /// Entries of a receive ring, each with a buffer for a frame. A frame that finds all of them taken waits in front
    /// of the adapter, as with Ethernet's flow control.
    pub receive_entries: u32,
    /// Send rings.
    pub send_rings: u32,
    /// Descriptors of a send ring. A packet takes one for each piece of memory that is mapped for it, or one if it is
    /// inline. A packet that finds too few waits in front of the ring, unmapped.
    pub send_entries: u32,
    /// Latency from a doorbell to the wire, and from the wire to an interrupt, without the link.
    pub latency: Span,
    /// Longest frame, with Ethernet header, that is sent inline in its descriptor, without a mapping.
    pub inline_bytes: u64,
    /// Size of the fragments from which a stream's data is sent, each mapped separately; `None`: a segment is one
    /// fragment.
    pub fragment_bytes: Option<u64>,
    /// Longest frame, with Ethernet header, that is copied out of its receive buffer, which then stays mapped.
    pub copied_bytes: u64,
    /// How receive buffers are mapped.
    pub buffers: ReceiveBuffers,
    /// Receive buffers stay mapped and are reused (page recycling).
    pub keeps_buffers: bool,
    /// Receive interrupt moderation: longest delay after the first frame,
    pub receive_delay: Span,
    /// and number of frames that end the delay.
    pub receive_frames: u32,
    /// Send interrupt moderation: longest delay,
    pub send_delay: Span,
    /// and number of frames.
    pub send_frames: u32,
}

/// How receive buffers are mapped.
#[derive(Debug, Clone, PartialEq)]
pub enum ReceiveBuffers {
    /// Each frame has its own fragments, mapped and unmapped for it.
    EachFrame {
        /// Bytes of each fragment.
        pieces_bytes: Vec<u64>,
    },
    /// Blocks are mapped as a whole and divided among frames.
    Blocks {
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of each fragment of a frame; each kind has its own blocks.
        pieces_bytes: Vec<u64>,
    },
}

impl ReceiveBuffers {
    /// For each kind of fragment: bytes of a mapping, and number of frames that use it.
    pub(super) fn mappings(&self) -> Vec<(u64, u64)> {
        match self {
            Self::EachFrame { pieces_bytes } => pieces_bytes.iter().map(|bytes| (*bytes, 1)).collect(),
            Self::Blocks { block_bytes, pieces_bytes } => {
                pieces_bytes.iter().map(|bytes| (*block_bytes, (block_bytes / bytes).max(1))).collect()
            }
        }
    }
}

impl NetworkAdapter {
    /// Most descriptors that a packet takes: of a TCP segment, one for its headers and one for each fragment.
    pub(super) fn descriptors_max(&self, protocol: Protocol) -> u64 {
        match protocol {
            Protocol::Udp => 1,
            Protocol::Tcp { segment_bytes_max } => {
                1 + segment_bytes_max.div_ceil(self.fragment_bytes.unwrap_or(segment_bytes_max).max(1))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An adapter for tests.
    pub(in crate::network) fn adapter() -> NetworkAdapter {
        NetworkAdapter {
            link: Link {
                generation: 2.try_into().unwrap(),
                lanes: 8,
                payload_bytes_max: 256,
                read_request_bytes_max: 512,
                completion_boundary_bytes: 64,
                overhead_share: 0.0,
            },
            receive_rings: 1,
            receive_entries: 64,
            send_rings: 1,
            send_entries: 64,
            latency: Span::ZERO,
            inline_bytes: 104,
            fragment_bytes: None,
            copied_bytes: 256,
            buffers: ReceiveBuffers::EachFrame { pieces_bytes: vec![512, 1024] },
            keeps_buffers: false,
            receive_delay: Span::ZERO,
            receive_frames: 16,
            send_delay: Span::ZERO,
            send_frames: 16,
        }
    }

    #[test]
    fn a_segment_takes_a_descriptor_for_each_fragment_and_one_for_its_headers() {
        let most = |fragment_bytes, protocol| {
            NetworkAdapter { fragment_bytes, ..adapter() }.descriptors_max(protocol)
        };
        let tcp = Protocol::Tcp { segment_bytes_max: 64 << 10 };
        assert_eq!([most(None, tcp), most(Some(4096), tcp), most(Some(4096), Protocol::Udp)], [2, 17, 1]);
    }
}
