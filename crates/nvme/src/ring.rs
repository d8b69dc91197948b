//! Rings of commands and completions in memory that the host and a controller share (Base, 3.3.1.2).

use crate::spec::command::{COMMAND_BYTES, Command};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use dma::{ByteOrder, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;

/// A submission queue, from the host's side.
#[derive(Debug)]
pub(crate) struct Submissions {
    ram: Arc<Ram>,
    at: MemoryAddress,
    entries: u16,
    tail: u16,
    /// How far the controller has read it, as far as it has told.
    head: u16,
}

impl Submissions {
    pub(crate) fn new(ram: Arc<Ram>, at: MemoryAddress, entries: u16) -> Self {
        Self { ram, at, entries, tail: 0, head: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.after(self.tail) == self.head
    }

    /// Puts a command behind the others. The controller is not told.
    pub(crate) fn push(&mut self, command: &Command) -> Result<(), NoMemory> {
        let at = self.at.0 + u64::from(self.tail) * COMMAND_BYTES as u64;
        for (offset, word) in (0..).step_by(8).zip(&command.0) {
            self.ram.write_u64(MemoryAddress(at + offset), ByteOrder::Little, *word)?;
        }
        self.tail = self.after(self.tail);
        Ok(())
    }

    pub(crate) fn tail(&self) -> u16 {
        self.tail
    }

    /// A completion has told how far the controller has read; `false` if that is nowhere in the queue.
    pub(crate) fn read_up_to(&mut self, head: u16) -> bool {
        let is_there = head < self.entries;
        if is_there {
            self.head = head;
        }
        is_there
    }

    fn after(&self, place: u16) -> u16 {
        if place + 1 == self.entries { 0 } else { place + 1 }
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
    pub(crate) fn pop(&mut self) -> Result<Option<Completion>, NoMemory> {
        let at = self.at.0 + u64::from(self.head) * COMPLETION_BYTES as u64;
        let read = |at| self.ram.read_u64(MemoryAddress(at), ByteOrder::Little);
        // The word with the phase first: what lies beside it was written before.
        let last = read(at + 8)?;
        if Completion([0, last]).phase() != self.phase {
            return Ok(None);
        }
        let completion = Completion([read(at)?, last]);
        self.head += 1;
        if self.head == self.entries {
            (self.head, self.phase) = (0, !self.phase);
        }
        Ok(Some(completion))
    }

    /// Completions that are there, from the head on.
    pub(crate) fn arrived(&self) -> usize {
        let is_new = |place: u16| {
            // Behind the ring's end entries of the next round begin, whose phase is the other.
            let (index, phase) = match place.checked_sub(self.entries - self.head) {
                None => (self.head + place, self.phase),
                Some(index) => (index, !self.phase),
            };
            let at = self.at.0 + u64::from(index) * COMPLETION_BYTES as u64;
            let last = self.ram.read_u64(MemoryAddress(at + 8), ByteOrder::Little);
            last.is_ok_and(|last| Completion([0, last]).phase() == phase)
        };
        (0..self.entries).take_while(|place| is_new(*place)).count()
    }

    pub(crate) fn head(&self) -> u16 {
        self.head
    }
}
