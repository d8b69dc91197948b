//! A ring of entries that one process writes and another reads.
//!
//! Neither trusts the other: an entry is copied before it is looked at, and a count that can't be ends the use.

use super::sleep;
use dma::RamArray;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a line of [`Counts`]: 128 bytes, so that no CPU shares a line with the other side.
pub(super) const LINE_WORDS: usize = 16;

/// The two words of a ring that are no entries.
#[derive(Debug)]
pub(super) struct Counts {
    /// How many entries were written, and whether the reader sleeps: the first word of each.
    lines: RamArray<LINE_WORDS>,
}

impl Counts {
    pub(super) fn new(lines: RamArray<LINE_WORDS>) -> Self {
        debug_assert!(lines.len() == 2);
        Self { lines }
    }

    /// How many entries were written.
    fn written(&self) -> &AtomicU64 {
        &self.lines[0][0]
    }

    /// Whether the reader sleeps.
    fn sleeps(&self) -> &AtomicU64 {
        &self.lines[1][0]
    }
}

/// The writer's side.
#[derive(Debug)]
pub(super) struct Writer<const WORDS: usize> {
    counts: Counts,
    entries: RamArray<WORDS>,
    written: u64,
    published: u64,
}

impl<const WORDS: usize> Writer<WORDS> {
    pub(super) fn new(counts: Counts, entries: RamArray<WORDS>) -> Self {
        Self { counts, entries, written: 0, published: 0 }
    }

    /// Writes an entry over the oldest. The reader has read that: it has no more slots than the ring has entries.
    pub(super) fn push(&mut self, entry: [u64; WORDS]) {
        let place = (self.written % self.entries.len() as u64) as usize;
        for (into, word) in self.entries[place].iter().zip(entry) {
            into.store(word, Ordering::Relaxed);
        }
        self.written += 1;
    }

    /// Shows the reader what was written. Returns whether it must be woken.
    pub(super) fn publish(&mut self) -> bool {
        if self.published == self.written {
            return false;
        }
        self.published = self.written;
        sleep::publish(self.counts.written(), self.counts.sleeps(), self.written)
    }
}

/// The reader's side.
#[derive(Debug)]
pub(super) struct Reader<const WORDS: usize> {
    counts: Counts,
    entries: RamArray<WORDS>,
    read: u64,
}

/// The other process wrote a count that can't be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

impl<const WORDS: usize> Reader<WORDS> {
    pub(super) fn new(counts: Counts, entries: RamArray<WORDS>) -> Self {
        Self { counts, entries, read: 0 }
    }

    /// The next entry, if there is one.
    pub(super) fn pop(&mut self) -> Result<Option<[u64; WORDS]>, Broken> {
        let written = self.counts.written().load(Ordering::Acquire);
        match written.wrapping_sub(self.read) {
            0 => return Ok(None),
            available if available > self.entries.len() as u64 => return Err(Broken),
            _ => {}
        }
        let entry = &self.entries[(self.read % self.entries.len() as u64) as usize];
        self.read += 1;
        Ok(Some(std::array::from_fn(|word| entry[word].load(Ordering::Relaxed))))
    }

    /// Whether there is an entry.
    pub(super) fn has_entry(&self) -> bool {
        self.counts.written().load(Ordering::Relaxed) != self.read
    }

    /// Says that the reader is about to sleep. Returns false if there is something to read: then it must not.
    pub(super) fn announce_sleep(&self) -> bool {
        sleep::announce(self.counts.written(), self.counts.sleeps(), self.read)
    }
}
