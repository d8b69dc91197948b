//! The network adapter: parameters, rings, and descriptors.

use crate::host::Mapped;
use crate::link::Link;
use crate::moderation::Moderation;
use crate::serial_server::SerialServer;
use crate::slab::Slab;
use des::{Span, Time};
use std::collections::VecDeque;

/// Parameters of a network adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkAdapter {
    /// Its PCIe link.
    pub link: Link,
    /// Receive rings. All frames of a flow arrive in the same one.
    pub receive_rings: u32,
    /// Buffers of a receive ring, in frames.
    pub receive_entries: u32,
    /// Send rings.
    pub send_rings: u32,
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
    fn mappings(&self) -> Vec<(u64, u64)> {
        match self {
            Self::EachFrame { pieces_bytes } => pieces_bytes.iter().map(|bytes| (*bytes, 1)).collect(),
            Self::Blocks { block_bytes, pieces_bytes } => {
                pieces_bytes.iter().map(|bytes| (*block_bytes, (block_bytes / bytes).max(1))).collect()
            }
        }
    }
}

/// A frame on the wire or in an adapter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) flow: u32,
    /// Payload bytes of the application.
    pub(super) bytes: u32,
    /// Bytes of the IP packet.
    pub(super) ip_bytes: u32,
    pub(super) what: FrameContent,
}

impl Frame {
    /// Bytes with the Ethernet header, without the checksum.
    pub(super) fn ethernet_bytes(&self) -> u64 {
        u64::from(self.ip_bytes) + ETHERNET_HEADER_BYTES
    }
}

const ETHERNET_HEADER_BYTES: u64 = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameContent {
    /// Data of a message.
    Data,
    /// An acknowledgement of this many bytes.
    Acknowledgement,
}

/// Frames submitted to the adapter together, and their mappings.
#[derive(Debug, Default)]
pub(super) struct Burst {
    pub(super) frames: Vec<Frame>,
    pub(super) mapped: Vec<Mapped>,
}

impl Burst {
    /// The flow of its frames.
    pub(super) fn flow(&self) -> u32 {
        self.frames.first().map_or(0, |frame| frame.flow)
    }

    /// The parts of its mappings that hold a frame: mapping, offset, length.
    pub(super) fn parts(&self, place: usize) -> impl Iterator<Item = (Mapped, u64, u64)> {
        let frame = &self.frames[place];
        // All frames but the last have equal length.
        let from = place as u64 * u64::from(self.frames[0].bytes);
        // Either headers are mapped separately, in front, and read once; or one mapping holds everything.
        let whole = frame.ethernet_bytes();
        let (first, others) =
            self.mapped.split_first().map_or((None, &[][..]), |(first, others)| (Some(first), others));
        let is_read = from == 0 || others.is_empty();
        let front = first.filter(|_| is_read).map(|first| (*first, 0, whole));
        let (mut start, bytes) = (0, u64::from(frame.bytes));
        let rest = others.iter().map(move |mapped| {
            let (begin, end) = (start, start + mapped.bytes());
            start = end;
            let (low, high) = (from.clamp(begin, end), (from + bytes).clamp(begin, end));
            (*mapped, low - begin, high - low)
        });
        front.into_iter().chain(rest)
    }
}

#[derive(Debug, Default)]
pub(super) struct ReceiveRing {
    /// Frames that no poll has taken yet.
    pub(super) frames: VecDeque<Frame>,
    /// An interrupt was raised, and the ring is being polled (NAPI).
    pub(super) is_polled: bool,
    pub(super) moderation: Moderation,
    /// Buffers, oldest first, per kind of fragment.
    pub(super) pieces: Vec<Pieces>,
    /// Frames in buffers, or being written there, that no poll has taken.
    pub(super) taken: u64,
    pub(super) descriptors: Descriptors,
}

/// Descriptors shared by adapter and driver, in coherent memory where an IOMMU translates.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) shared: Option<Mapped>,
    next: u64,
}

impl Descriptors {
    /// Offset of the next descriptor.
    pub(super) fn next(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next = (at + DESCRIPTOR_BYTES) % bytes.max(DESCRIPTOR_BYTES);
        at
    }
}

/// Bytes of a descriptor: address, length and flags.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;

/// Buffers of a ring, of one kind of fragment.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) mapping_bytes: u64,
    pub(super) frames_per_mapping: u64,
    /// Frames received into the oldest mapping.
    pub(super) used: u64,
    pub(super) mapped: VecDeque<Mapped>,
}

impl ReceiveRing {
    /// Recycles a frame's buffers, which stay mapped.
    pub(super) fn keep(&mut self) {
        for pieces in &mut self.pieces {
            let all = pieces.frames_per_mapping * pieces.mapped.len() as u64;
            pieces.used = (pieces.used + 1) % all.max(1);
        }
    }

    /// The parts of buffers that the next frame is written to: mapping, offset, length.
    pub(super) fn parts(&mut self, frame: &Frame) -> Vec<(Mapped, u64, u64)> {
        let mut left = frame.ethernet_bytes();
        let ahead = self.taken;
        self.taken += 1;
        let part = |pieces: &Pieces| {
            let place = pieces.used + ahead;
            let piece_bytes = pieces.mapping_bytes / pieces.frames_per_mapping;
            let number = (place / pieces.frames_per_mapping) as usize % pieces.mapped.len().max(1);
            let bytes = left.min(piece_bytes);
            left -= bytes;
            Some((*pieces.mapped.get(number)?, place % pieces.frames_per_mapping * piece_bytes, bytes))
        };
        self.pieces.iter().filter_map(part).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct SendRing {
    pub(super) descriptors: Descriptors,
    /// What was sent, and not yet taken back.
    pub(super) sent: VecDeque<u32>,
    pub(super) cleanup_is_pending: bool,
    pub(super) moderation: Moderation,
    /// Time until which descriptors were read, and frames fetched. Bursts can't overtake each other.
    pub(super) told: Time,
    pub(super) reached: Time,
}

/// State of an adapter.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) receive: Vec<ReceiveRing>,
    pub(super) send: Vec<SendRing>,
    pub(super) bursts: Slab<Burst>,
    /// The link, towards memory and from memory.
    pub(super) up: SerialServer,
    pub(super) down: SerialServer,
    /// The wire, in the direction from this adapter.
    pub(super) wire: SerialServer,
    /// When the latest received frame is in memory, if a translation delays it.
    pub(super) written: Time,
}

impl Rings {
    pub(super) fn new(adapter: &NetworkAdapter) -> Self {
        let pieces = || {
            let piece = |(mapping_bytes, frames_per_mapping)| Pieces {
                mapping_bytes,
                frames_per_mapping,
                used: 0,
                mapped: VecDeque::new(),
            };
            adapter.buffers.mappings().into_iter().map(piece).collect()
        };
        let ring = |_| ReceiveRing { pieces: pieces(), ..ReceiveRing::default() };
        Self {
            receive: (0..adapter.receive_rings).map(ring).collect(),
            send: (0..adapter.send_rings).map(|_| SendRing::default()).collect(),
            bursts: Slab::default(),
            up: SerialServer::default(),
            down: SerialServer::default(),
            wire: SerialServer::default(),
            written: Time::ZERO,
        }
    }
}
