//! A packet in a send ring.

use super::packet::{Framing, Packet};
use crate::host::Mapped;

/// A packet in a send ring, with its mappings and descriptors.
#[derive(Debug, Default)]
pub(super) struct Burst {
    pub(super) packet: Packet,
    /// Its pieces in order; none if it is inline or if mapping it was refused.
    pub(super) mapped: Vec<Mapped>,
    pub(super) descriptors: u32,
    /// It was written into its descriptor.
    pub(super) is_inline: bool,
}

impl Burst {
    /// The parts of its mappings that hold a frame: mapping, offset, length.
    pub(super) fn parts(
        &self,
        place: u32,
        framing: &Framing,
    ) -> impl Iterator<Item = (Mapped, u64, u64)> + use<'_> {
        let frame = framing.frame(&self.packet, place);
        let from = u64::from(place) * framing.payload_bytes;
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
