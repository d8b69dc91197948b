//! An adapter's rings.

use super::mapping::Mapped;
use crate::link::Link;
use crate::serial::Serial;
use des::Span;
use std::collections::VecDeque;

/// A network adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its link to memory.
    pub link: Link,
    /// Rings that frames are received into; a flow always comes into the same.
    pub receive_rings: u32,
    /// Frames that each has buffers for.
    pub receive_entries: u32,
    /// Rings that frames are sent from.
    pub send_rings: u32,
    /// From a doorbell to the wire, and from the wire to an interrupt, besides the time on the link.
    pub latency: Span,
    /// A frame up to this long, with its Ethernet header, is part of the descriptor that sends it, and is not mapped.
    pub inline_bytes: u64,
    /// A received frame up to this long, with that header, is copied out of its buffer, which goes back to the ring mapped.
    pub copied_bytes: u64,
    /// How received frames' buffers are mapped.
    pub buffers: ReceiveBuffers,
    /// An interrupt comes so long after the first frame that it tells of,
    pub receive_delay: Span,
    /// or with this many.
    pub receive_frames: u32,
    /// The same for frames that were sent.
    pub send_delay: Span,
    /// See there.
    pub send_frames: u32,
}

/// How received frames' buffers are mapped.
#[derive(Debug, Clone, PartialEq)]
pub enum ReceiveBuffers {
    /// Each frame in pieces of its own, all of which are mapped and unmapped for it.
    EachFrame {
        /// Bytes of each piece.
        pieces_bytes: Vec<u64>,
    },
    /// Blocks of memory are mapped whole, and pieces of them handed out until they are used up.
    Blocks {
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of each piece that a frame takes, each from blocks of its own.
        pieces_bytes: Vec<u64>,
    },
}

impl ReceiveBuffers {
    /// For each kind of piece, bytes of a mapping, and how many frames it serves.
    fn mappings(&self) -> Vec<(u64, u64)> {
        match self {
            Self::EachFrame { pieces_bytes } => pieces_bytes.iter().map(|bytes| (*bytes, 1)).collect(),
            Self::Blocks { block_bytes, pieces_bytes } => {
                pieces_bytes.iter().map(|bytes| (*block_bytes, (block_bytes / bytes).max(1))).collect()
            }
        }
    }
}

/// What is on the wire, or came from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) flow: u32,
    /// Bytes of the application in it.
    pub(super) bytes: u32,
    /// Bytes with the headers that IP and above put before them.
    pub(super) ip_bytes: u32,
    pub(super) what: What,
}

impl Frame {
    /// With the Ethernet header, but without the checksum behind it.
    pub(super) fn ethernet_bytes(&self) -> u64 {
        u64::from(self.ip_bytes) + ETHERNET_HEADER_BYTES
    }
}

const ETHERNET_HEADER_BYTES: u64 = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Part of a message.
    Data,
    /// Says that so many bytes have come.
    Acknowledgement,
}

/// Frames that were handed to the adapter together, and what is mapped for them.
#[derive(Debug, Default)]
pub(super) struct Burst {
    pub(super) frames: Vec<Frame>,
    pub(super) mapped: Vec<Mapped>,
}

#[derive(Debug, Default)]
pub(super) struct ReceiveRing {
    /// Frames that no poll has seen.
    pub(super) frames: VecDeque<Frame>,
    /// An interrupt was raised, and what it led to goes on.
    pub(super) is_polled: bool,
    /// One is on its way.
    pub(super) is_delayed: bool,
    /// Buffers, oldest first, for each kind of piece.
    pub(super) pieces: Vec<Pieces>,
}

/// Buffers of a ring of one kind.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) mapping_bytes: u64,
    pub(super) frames_per_mapping: u64,
    /// Frames since the oldest was begun.
    pub(super) used: u64,
    pub(super) mapped: VecDeque<Mapped>,
}

#[derive(Debug, Default)]
pub(super) struct SendRing {
    /// What was sent, and not yet taken back.
    pub(super) sent: VecDeque<u32>,
    pub(super) is_reaped: bool,
    pub(super) is_delayed: bool,
}

/// An adapter at work.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) receive: Vec<ReceiveRing>,
    pub(super) send: Vec<SendRing>,
    pub(super) bursts: Vec<Burst>,
    pub(super) free: Vec<u32>,
    /// The link towards memory, and from it.
    pub(super) up: Serial,
    pub(super) down: Serial,
    /// The wire, from here.
    pub(super) wire: Serial,
}

impl Rings {
    pub(super) fn new(adapter: &Adapter) -> Self {
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
            bursts: Vec::new(),
            free: Vec::new(),
            up: Serial::default(),
            down: Serial::default(),
            wire: Serial::default(),
        }
    }

    /// A place for a burst.
    pub(super) fn put(&mut self, burst: Burst) -> u32 {
        if let Some(place) = self.free.pop() {
            self.bursts[place as usize] = burst;
            return place;
        }
        self.bursts.push(burst);
        (self.bursts.len() - 1) as u32
    }

    /// A burst that is over.
    pub(super) fn take(&mut self, place: u32) -> Burst {
        self.free.push(place);
        std::mem::take(&mut self.bursts[place as usize])
    }
}
