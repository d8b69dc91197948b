//! Rings of commands and completions in memory that the host and a controller share (Base, 3.3.1.2).

use crate::spec::command::{COMMAND_BYTES, Command};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use dma::{MemoryAddress, NoMemory, Ram};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A submission queue, from the host's side.
///
/// It needs no submission queue head: with fewer commands in flight than entries, the next entry was already read. The command that was
/// in it is completed, or a later one is, and a controller fetches commands in order.
#[derive(Debug)]
pub(crate) struct Submissions {
    ram: Arc<Ram>,
    at: MemoryAddress,
    entries: u16,
    tail: u16,
}

impl Submissions {
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, tail: 0 }
    }

    /// Writes a command at the tail. The controller sees it when the doorbell is written, which is behind a barrier.
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

    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.tail
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.tail = 0;
    }
}

/// A completion queue, from the host's side.
#[derive(Debug)]
pub(crate) struct Completions {
    ram: Arc<Ram>,
    at: MemoryAddress,
    entries: u16,
    head: u16,
    /// Phase tag of entries that are new.
    phase: bool,
}

impl Completions {
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, head: 0, phase: true }
    }

    /// The next completion, if one has arrived. The head doorbell is the caller's to write.
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
        // The word with the phase first: what lies beside it was written before.
        let last = u64::from_le(last.load(Ordering::Acquire));
        if Completion([0, last]).phase() != phase {
            return Ok(None);
        }
        Ok(Some(Completion([u64::from_le(first.load(Ordering::Relaxed)), last])))
    }

    #[inline]
    fn next_entry(&self, entry: u16, phase: bool) -> (u16, bool) {
        if entry + 1 == self.entries { (0, !phase) } else { (entry + 1, phase) }
    }

    #[inline]
    pub(crate) fn head(&self) -> u16 {
        self.head
    }

    /// Empties it: with phase tag 0 no entry is a new completion.
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
