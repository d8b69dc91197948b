//! An adapter's rings.

use crate::host::Mapped;
use crate::link::Link;
use crate::moderation::Moderation;
use crate::serial::Serial;
use crate::slab::Slab;
use des::{Span, Time};
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
    /// Bytes of each piece of memory that a stream's bytes are sent from, mapped for itself; a segment is one piece without.
    pub fragment_bytes: Option<u64>,
    /// A received frame up to this long, with that header, is copied out of its buffer, which goes back to the ring mapped.
    pub copied_bytes: u64,
    /// How received frames' buffers are mapped.
    pub buffers: ReceiveBuffers,
    /// They stay mapped, and go to the back of the ring when a poll has taken their frames.
    pub keeps_buffers: bool,
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

impl Burst {
    /// The flow that its frames are of.
    pub(super) fn flow(&self) -> u32 {
        self.frames.first().map_or(0, |frame| frame.flow)
    }

    /// The parts of its mappings that one of its frames is read from: which, from where, and how much.
    pub(super) fn parts(&self, place: usize) -> impl Iterator<Item = (Mapped, u64, u64)> {
        let frame = &self.frames[place];
        // All of them but the last are as long.
        let from = place as u64 * u64::from(self.frames[0].bytes);
        // Headers in front, for themselves, and read once; or all of a frame in one.
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
    /// Frames that no poll has seen.
    pub(super) frames: VecDeque<Frame>,
    /// An interrupt was raised, and what it led to goes on.
    pub(super) is_polled: bool,
    pub(super) moderation: Moderation,
    /// Buffers, oldest first, for each kind of piece.
    pub(super) pieces: Vec<Pieces>,
    /// Frames that the adapter has put into buffers, or is putting, and no poll has taken.
    pub(super) taken: u64,
    pub(super) descriptors: Descriptors,
}

/// What an adapter and its driver tell each other by, where an IOMMU translates it.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) shared: Option<Mapped>,
    next: u64,
}

impl Descriptors {
    /// Where the next one begins.
    pub(super) fn next(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next = (at + DESCRIPTOR_BYTES) % bytes.max(DESCRIPTOR_BYTES);
        at
    }
}

/// What many adapters take: an address, a length and flags.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;

/// Buffers of a ring of one kind.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) mapping_bytes: u64,
    pub(super) frames_per_mapping: u64,
    /// Frames since the oldest was begun.
    pub(super) used: u64,
    pub(super) mapped: VecDeque<Mapped>,
}

impl ReceiveRing {
    /// Buffers of a frame go to the back of the ring, mapped.
    pub(super) fn keep(&mut self) {
        for pieces in &mut self.pieces {
            let all = pieces.frames_per_mapping * pieces.mapped.len() as u64;
            pieces.used = (pieces.used + 1) % all.max(1);
        }
    }

    /// The parts of buffers that the next frame is written to: which, from where, and how much.
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
    pub(super) is_reaped: bool,
    pub(super) moderation: Moderation,
    /// When the adapter knows of its bursts so far, and has reached their frames: none passes another.
    pub(super) told: Time,
    pub(super) reached: Time,
}

/// An adapter at work.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) receive: Vec<ReceiveRing>,
    pub(super) send: Vec<SendRing>,
    pub(super) bursts: Slab<Burst>,
    /// The link towards memory, and from it.
    pub(super) up: Serial,
    pub(super) down: Serial,
    /// The wire, from here.
    pub(super) wire: Serial,
    /// When all that was received is in memory, where that takes time.
    pub(super) written: Time,
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
            bursts: Slab::default(),
            up: Serial::default(),
            down: Serial::default(),
            wire: Serial::default(),
            written: Time::ZERO,
        }
    }
}
