//! Submission and completion rings in memory shared with the controller (Base, 3.3.1.2).

use crate::spec::command::{COMMAND_BYTES, Command};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use dma::{MemoryAddress, NoMemory, Ram};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A submission ring, from the host's side.
///
/// It does not track the controller's head. With fewer commands in flight than entries, the entry at the tail was
/// already fetched: controllers fetch in order.
#[derive(Debug)]
pub(crate) struct Submissions {
    ram: Arc<Ram>,
    at: MemoryAddress,
    entries: u16,
    tail: u16,
}

impl Submissions {
    /// An empty submission queue.
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, tail: 0 }
    }

    /// Writes a command at the tail. The controller fetches it after the doorbell write, which has a barrier.
    #[inline]
    pub(crate) fn push(&mut self, command: &Command) -> Result<(), NoMemory> {
        let at = MemoryAddress(self.at.0 + u64::from(self.tail) * COMMAND_BYTES as u64);
        let entry = self.ram.words_at::<{ COMMAND_BYTES / 8 }>(at)?;
        for (into, word) in entry.iter().zip(&command.0) {
            into.store(word.to_le(), Ordering::Relaxed);
        }
        self.tail = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
        Ok(())
    }

    /// The tail to write to the doorbell.
    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.tail
    }

    /// Empties the ring.
    pub(crate) fn clear(&mut self) {
        self.tail = 0;
    }
}

/// A completion ring, from the host's side.
#[derive(Debug)]
pub(crate) struct Completions {
    ram: Arc<Ram>,
    at: MemoryAddress,
    entries: u16,
    head: u16,
    /// Phase tag of new entries in this round.
    phase: bool,
}

impl Completions {
    /// An empty completion queue.
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, head: 0, phase: true }
    }

    /// Removes the next completion, if one has arrived. The caller writes the head doorbell.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<Completion>, NoMemory> {
        let completion = self.completion_at(self.head, self.phase)?;
        if completion.is_some() {
            (self.head, self.phase) = self.next_entry(self.head, self.phase);
        }
        Ok(completion)
    }

    /// How many completions have arrived.
    pub(crate) fn pending(&self) -> Result<usize, NoMemory> {
        let (mut head, mut phase, mut pending) = (self.head, self.phase, 0);
        while pending < usize::from(self.entries) && self.completion_at(head, phase)?.is_some() {
            (head, phase) = self.next_entry(head, phase);
            pending += 1;
        }
        Ok(pending)
    }

    /// The completion of an entry, if it is new.
    #[inline]
    fn completion_at(&self, entry: u16, phase: bool) -> Result<Option<Completion>, NoMemory> {
        let at = MemoryAddress(self.at.0 + u64::from(entry) * COMPLETION_BYTES as u64);
        let [first, last] = self.ram.words_at(at)?;
        // Read the word with the phase tag first: the other word was written before it.
        let last = u64::from_le(last.load(Ordering::Acquire));
        if Completion([0, last]).phase() != phase {
            return Ok(None);
        }
        Ok(Some(Completion([u64::from_le(first.load(Ordering::Relaxed)), last])))
    }

    /// The entry after this one and its expected phase tag.
    #[inline]
    fn next_entry(&self, entry: u16, phase: bool) -> (u16, bool) {
        if entry + 1 == self.entries { (0, !phase) } else { (entry + 1, phase) }
    }

    /// The head to write to the doorbell.
    #[inline]
    pub(crate) fn head(&self) -> u16 {
        self.head
    }

    /// Empties the ring. All phase tags become 0, so no entry looks new.
    pub(crate) fn clear(&mut self) -> Result<(), NoMemory> {
        for entry in 0..self.entries {
            let at = MemoryAddress(self.at.0 + u64::from(entry) * COMPLETION_BYTES as u64);
            for word in self.ram.words_at::<{ COMPLETION_BYTES / 8 }>(at)? {
                word.store(0, Ordering::Relaxed);
            }
        }
        (self.head, self.phase) = (0, true);
        Ok(())
    }
}
