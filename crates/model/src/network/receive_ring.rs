//! A receive ring: a bounded number of entries with buffers, and the frames in them.

use super::descriptors::Descriptors;
use super::frame::Frame;
use super::network_adapter::NetworkAdapter;
use crate::host::Mapped;
use crate::moderation::Moderation;
use std::collections::VecDeque;

/// State of a receive ring.
#[derive(Debug)]
pub(super) struct ReceiveRing {
    /// Entries with a buffer each, that the ring has.
    entries: u32,
    /// Entries taken, from when the adapter accepts a frame until the poll that takes it has put a new buffer there.
    in_use: u32,
    in_use_max: u32,
    /// Frames in memory that no poll has taken.
    pub(super) frames: VecDeque<Frame>,
    /// An interrupt was raised, and the ring is being polled (NAPI).
    pub(super) is_polled: bool,
    pub(super) moderation: Moderation,
    /// Buffers, oldest first, per kind of fragment.
    pub(super) pieces: Vec<Pieces>,
    /// Frames whose buffers the adapter has looked up, and that no poll has taken.
    placed: u64,
    /// Buffers stay mapped, and are used in a circle.
    keeps_buffers: bool,
    pub(super) descriptors: Descriptors,
    /// What the current poll has to do at its end.
    pub(super) poll: Poll,
}

/// What a poll has to do at its end.
#[derive(Debug, Default)]
pub(super) struct Poll {
    /// Entries whose frames it took.
    pub(super) entries: u32,
    /// Kinds of buffers that it unmapped, once for each.
    pub(super) unmapped: Vec<usize>,
    /// Streams whose data it took, once for each frame.
    pub(super) streams: Vec<u32>,
}

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
    pub(super) fn new(adapter: &NetworkAdapter) -> Self {
        let piece = |(mapping_bytes, frames_per_mapping)| Pieces {
            mapping_bytes,
            frames_per_mapping,
            used: 0,
            mapped: VecDeque::new(),
        };
        Self {
            entries: adapter.receive_entries,
            in_use: 0,
            in_use_max: 0,
            frames: VecDeque::new(),
            is_polled: false,
            moderation: Moderation::default(),
            pieces: adapter.buffers.mappings().into_iter().map(piece).collect(),
            placed: 0,
            keeps_buffers: adapter.keeps_buffers,
            descriptors: Descriptors::default(),
            poll: Poll::default(),
        }
    }

    /// Entries that are taken.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Most entries that were taken at a time.
    pub(super) fn in_use_max(&self) -> u32 {
        self.in_use_max
    }

    /// Takes an entry for a frame. Returns whether one was free.
    pub(super) fn accept(&mut self) -> bool {
        let is_free = self.in_use < self.entries;
        self.in_use += u32::from(is_free);
        self.in_use_max = self.in_use_max.max(self.in_use);
        is_free
    }

    /// A poll takes the oldest frame, if one is in memory.
    pub(super) fn take(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.placed = self.placed.saturating_sub(1);
        self.poll.entries += 1;
        Some(frame)
    }

    /// A poll ends: the entries that it took have buffers again.
    pub(super) fn refill(&mut self) {
        self.in_use -= std::mem::take(&mut self.poll.entries);
    }

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
        let ahead = self.placed;
        self.placed += 1;
        let keeps_buffers = self.keeps_buffers;
        let part = |pieces: &Pieces| {
            let piece_bytes = pieces.mapping_bytes / pieces.frames_per_mapping;
            let bytes = left.min(piece_bytes);
            left -= bytes;
            let (mapped, place) = pieces.at(ahead, keeps_buffers)?;
            Some((mapped, place * piece_bytes, bytes))
        };
        self.pieces.iter().filter_map(part).collect()
    }
}

impl Pieces {
    /// Mappings that a ring of so many entries needs. A block whose first frames were taken is still mapped for its
    /// last ones, so the frames of a full ring reach into one block more.
    pub(super) fn mappings(&self, entries: u32) -> u64 {
        let whole = u64::from(entries).div_ceil(self.frames_per_mapping);
        whole + u64::from(self.frames_per_mapping > 1)
    }

    /// The mapping for a frame with so many frames ahead of it, and its place there. `None` if that mapping was
    /// refused.
    fn at(&self, ahead: u64, is_circle: bool) -> Option<(Mapped, u64)> {
        let all = self.frames_per_mapping * self.mapped.len() as u64;
        let place = self.used + ahead;
        let place = if is_circle { place % all.max(1) } else { place };
        let mapped = *self.mapped.get((place / self.frames_per_mapping) as usize)?;
        Some((mapped, place % self.frames_per_mapping))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Cpus, DmaPath, LineTransfer, Mapping, MappingCost, Step};
    use crate::network::ReceiveBuffers;
    use crate::network::frame::FrameContent;
    use crate::network::network_adapter::tests::adapter;
    use des::Span;
    use std::collections::HashSet;

    fn mapping() -> Mapping {
        let line = LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO };
        let (core_capacity, wake) = (vec![1.0], Span::ZERO);
        let cpus = Cpus { cores: 1, cores_per_node: 1, core_capacity, instruction_ns: 1.0, wake, line };
        let cost = MappingCost {
            direct_instructions: 0.0,
            window_instructions: 0.0,
            locked_instructions: 0.0,
            translated_instructions: 0.0,
            submit_instructions: 0.0,
            invalidation: Span::ZERO,
            hypercall: Span::ZERO,
            entry: Span::ZERO,
            lock_lines: 0.0,
        };
        Mapping::new(DmaPath::Direct, cost, &cpus).unwrap()
    }

    /// Frames of a full ring that overlap: none, whatever part of the oldest block was taken before.
    #[test]
    fn frames_of_a_full_ring_have_buffers_of_their_own() {
        let blocks = ReceiveBuffers::Blocks { block_bytes: 4096, pieces_bytes: vec![1024] };
        let each = ReceiveBuffers::EachFrame { pieces_bytes: vec![1024] };
        for (buffers, keeps_buffers) in [(&blocks, false), (&blocks, true), (&each, false), (&each, true)] {
            for (entries, used) in [(8, 0), (8, 3), (7, 0), (7, 3), (1, 3)] {
                let adapter = NetworkAdapter {
                    receive_entries: entries,
                    buffers: buffers.clone(),
                    keeps_buffers,
                    ..adapter()
                };
                let mut ring = ReceiveRing::new(&adapter);
                let mut mapping = mapping();
                let pieces = &mut ring.pieces[0];
                let number = pieces.mappings(entries);
                let steps = &mut Vec::<Step<()>>::new();
                pieces.mapped =
                    (0..number).filter_map(|_| mapping.map(0, pieces.mapping_bytes, steps)).collect();
                pieces.used = used.min(pieces.frames_per_mapping - 1);
                let frame = Frame { flow: 0, bytes: 900, ip_bytes: 952, what: FrameContent::Data };
                let mut places = HashSet::new();
                while ring.accept() {
                    let parts = ring.parts(&frame);
                    let [(mapped, offset, bytes)] = parts[..] else { panic!("{parts:?}") };
                    assert_eq!(bytes, 966);
                    assert!(places.insert((format!("{mapped:?}"), offset)), "{buffers:?} {entries} {used}");
                }
                assert_eq!(places.len() as u32, entries);
            }
        }
    }

    #[test]
    fn entries_are_free_when_the_poll_ends() {
        let mut ring = ReceiveRing::new(&NetworkAdapter { receive_entries: 1, ..adapter() });
        assert!(ring.accept() && !ring.accept());
        ring.frames.push_back(Frame { flow: 0, bytes: 1, ip_bytes: 53, what: FrameContent::Data });
        assert!(ring.take().is_some() && !ring.accept());
        ring.refill();
        assert!(ring.accept() && ring.in_use() == 1);
    }
}
