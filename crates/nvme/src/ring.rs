//! Rings of commands and completions in memory that the host and a controller share (Base, 3.3.1.2).

use crate::spec::command::{COMMAND_BYTES, Command};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use dma::{MemoryAddress, NoMemory, Ram};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A submission queue, from the host's side.
///
/// It does not ask how far the controller has read it: with fewer commands under way than it has entries, the place of the next was read.
/// Either its command of the round before is completed, or one that was submitted behind that is, and commands are read in their order.
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

    /// Puts a command behind the others. The controller is not told: the doorbell, which is written behind a barrier, tells it.
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

    /// Empty, as when it was made.
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
    /// Of entries that are new.
    phase: bool,
}

impl Completions {
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, head: 0, phase: true }
    }

    /// The next completion, if it is there. The controller is not told that its place is free.
    #[inline]
    pub(crate) fn pop(&mut self) -> Result<Option<Completion>, NoMemory> {
        let completion = self.look(self.head, self.phase)?;
        if completion.is_some() {
            (self.head, self.phase) = self.after(self.head, self.phase);
        }
        Ok(completion)
    }

    /// Completions that are there.
    pub(crate) fn arrived(&self) -> Result<usize, NoMemory> {
        let (mut head, mut phase, mut arrived) = (self.head, self.phase, 0);
        while arrived < usize::from(self.entries) && self.look(head, phase)?.is_some() {
            (head, phase) = self.after(head, phase);
            arrived += 1;
        }
        Ok(arrived)
    }

    /// What is at a place, if it is new.
    #[inline]
    fn look(&self, place: u16, phase: bool) -> Result<Option<Completion>, NoMemory> {
        let at = MemoryAddress(self.at.0 + u64::from(place) * COMPLETION_BYTES as u64);
        let [first, last] = self.ram.words_at(at)?;
        // The word with the phase first: what lies beside it was written before.
        let last = u64::from_le(last.load(Ordering::Acquire));
        if Completion([0, last]).phase() != phase {
            return Ok(None);
        }
        Ok(Some(Completion([u64::from_le(first.load(Ordering::Relaxed)), last])))
    }

    #[inline]
    fn after(&self, place: u16, phase: bool) -> (u16, bool) {
        if place + 1 == self.entries { (0, !phase) } else { (place + 1, phase) }
    }

    #[inline]
    pub(crate) fn head(&self) -> u16 {
        self.head
    }

    /// Empty, as when it was made: whatever is in it is no completion of the first round.
    pub(crate) fn clear(&mut self) -> Result<(), NoMemory> {
        for place in 0..self.entries {
            let at = MemoryAddress(self.at.0 + u64::from(place) * COMPLETION_BYTES as u64);
            for word in self.ram.words_at::<{ COMPLETION_BYTES / 8 }>(at)? {
                word.store(0, Ordering::Relaxed);
            }
        }
        (self.head, self.phase) = (0, true);
        Ok(())
    }
}
