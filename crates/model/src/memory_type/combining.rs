//! The CPU's write-combining buffers, which collect stores per line until they are drained. They are not snooped
//! (Intel SDM vol. 3, section 11.3.1 "Buffering of Write Combining Memory Locations").

use super::line::{Line, Piece, Version};
use std::collections::VecDeque;

/// A buffer: stores to a line that are not in memory yet.
#[derive(Debug, Clone)]
pub(super) struct CombiningBuffer {
    /// Address of the line.
    pub(super) address: u64,
    pub(super) line: Line,
    /// A bit per byte stored.
    pub(super) stored: u64,
}

impl CombiningBuffer {
    pub(super) fn has(&self, byte: usize) -> bool {
        self.stored >> byte & 1 != 0
    }

    /// Whether every byte was stored, so that one burst drains it.
    pub(super) fn is_full(&self) -> bool {
        self.stored == u64::MAX
    }
}

/// The buffers, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    open: VecDeque<CombiningBuffer>,
    count: usize,
}

impl Buffers {
    pub(super) fn new(count: usize) -> Self {
        Self { open: VecDeque::new(), count: count.max(1) }
    }

    pub(super) fn find(&self, address: u64) -> Option<&CombiningBuffer> {
        self.open.iter().find(|gathered| gathered.address == address)
    }

    /// Removes a buffer, to drain it.
    pub(super) fn take(&mut self, address: u64) -> Option<CombiningBuffer> {
        let place = self.open.iter().position(|gathered| gathered.address == address)?;
        self.open.remove(place)
    }

    /// Removes the oldest buffer.
    pub(super) fn take_first(&mut self) -> Option<CombiningBuffer> {
        self.open.pop_front()
    }

    /// Removes the oldest buffer if all are in use and none is for this line.
    pub(super) fn make_room(&mut self, address: u64) -> Option<CombiningBuffer> {
        let must = self.find(address).is_none() && self.open.len() >= self.count;
        must.then(|| self.open.pop_front()).flatten()
    }

    /// Adds a store. Returns the buffer once it is full.
    pub(super) fn put(&mut self, piece: Piece, bytes: &[u8], version: Version) -> Option<CombiningBuffer> {
        if self.find(piece.line).is_none() {
            self.open.push_back(CombiningBuffer { address: piece.line, line: Line::BLANK, stored: 0 });
        }
        let gathered = self.open.iter_mut().find(|gathered| gathered.address == piece.line)?;
        gathered.line.put(piece.offset, bytes, version);
        let ones = u64::MAX.checked_shr(64 - piece.bytes as u32).unwrap_or(0);
        gathered.stored |= ones << piece.offset;
        let is_full = gathered.is_full();
        is_full.then(|| self.take(piece.line)).flatten()
    }
}
