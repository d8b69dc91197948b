//! A submission queue and its completion queue, for one thread.

use crate::registers::Registers;
use crate::ring::{Completions, Submissions};
use crate::spec::command::Command;
use crate::spec::status::Status;
use dma::{BusAddress, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;

/// A command under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u16);

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Which.
    pub tag: Tag,
    /// How it went.
    pub status: Status,
    /// What it says besides.
    pub result: u32,
}

/// Why a queue can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// As many commands are under way as it has room for.
    #[error("all {0} places of the queue are taken")]
    Full(usize),
    /// The controller has completed what is not under way.
    #[error("the controller has completed command {0}, which is not under way")]
    Unknown(u16),
    /// The controller says that it has read to a place that there is not.
    #[error("the controller has read its queue up to entry {0}, which it does not have")]
    Beyond(u16),
    /// The rings are not where they were said to be.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

/// Where a queue pair lies: rings, as the CPU and as the controller find them, and doorbells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) submissions: (MemoryAddress, BusAddress),
    pub(crate) completions: (MemoryAddress, BusAddress),
    /// Entries of either.
    pub(crate) entries: u16,
    /// Of the submission queue's tail, and the completion queue's head.
    pub(crate) doorbells: [u64; 2],
    /// Memory for the lists of each command, [`LIST_BYTES`] each.
    pub(crate) lists: (MemoryAddress, BusAddress),
}

/// Bytes of a command's list: a page of the controller's.
pub(crate) const LIST_BYTES: u64 = 4096;

/// A queue pair. Its owner submits commands, rings the doorbell once for several of them, and polls for completions.
#[derive(Debug)]
pub struct QueuePair {
    registers: Arc<dyn Registers>,
    pub(crate) ram: Arc<Ram>,
    submissions: Submissions,
    completions: Completions,
    place: Place,
    /// The tail that the controller knows.
    told: u16,
    free: Vec<Tag>,
    is_under_way: Vec<bool>,
}

impl QueuePair {
    pub(crate) fn new(registers: Arc<dyn Registers>, ram: Arc<Ram>, place: Place) -> Self {
        // One entry stays free, by which a full ring is told from an empty one.
        let room = place.entries.saturating_sub(1);
        Self {
            submissions: Submissions::new(Arc::clone(&ram), place.submissions.0, place.entries),
            completions: Completions::new(Arc::clone(&ram), place.completions.0, place.entries),
            registers,
            ram,
            place,
            told: 0,
            free: (0..room).rev().map(Tag).collect(),
            is_under_way: vec![false; room.into()],
        }
    }

    /// Commands that may still be submitted.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Commands under way.
    pub fn under_way(&self) -> usize {
        self.is_under_way.len() - self.free.len()
    }

    /// Completions that have arrived and are not yet taken.
    pub fn arrived(&self) -> usize {
        self.completions.arrived()
    }

    /// A tag for a command to come, with the memory of its list. It has to be [submitted](Self::submit_as) or [put back](Self::put_back).
    pub(crate) fn take(&mut self) -> Result<Tag, QueueError> {
        if self.submissions.is_full() {
            return Err(QueueError::Full(self.is_under_way.len()));
        }
        self.free.pop().ok_or(QueueError::Full(self.is_under_way.len()))
    }

    pub(crate) fn put_back(&mut self, tag: Tag) {
        self.free.push(tag);
    }

    /// Where a command's list is, for the CPU and for the controller.
    pub(crate) fn list(&self, tag: Tag) -> (MemoryAddress, BusAddress) {
        let offset = u64::from(tag.0) * LIST_BYTES;
        let (memory, at) = self.place.lists;
        (MemoryAddress(memory.0 + offset), BusAddress(at.0 + offset))
    }

    pub(crate) fn submit_as(&mut self, tag: Tag, command: Command) -> Result<(), QueueError> {
        if let Err(error) = self.submissions.push(&command.known_as(tag.0)) {
            self.put_back(tag);
            return Err(error.into());
        }
        self.is_under_way[usize::from(tag.0)] = true;
        Ok(())
    }

    /// Puts a command into the queue. The controller begins with it after the next [`ring`](Self::ring).
    ///
    /// # Errors
    /// [`QueueError`]; then the command is not in the queue.
    pub fn submit(&mut self, command: Command) -> Result<Tag, QueueError> {
        let tag = self.take()?;
        self.submit_as(tag, command)?;
        Ok(tag)
    }

    /// Tells the controller of what was submitted since the last time: one write, however much it is.
    pub fn ring(&mut self) {
        let tail = self.submissions.tail();
        if tail != self.told {
            self.registers.write_u32(self.place.doorbells[0], tail.into());
            self.told = tail;
        }
    }

    /// Takes what is completed, up to `most`, and says how much that was. It does not wait.
    ///
    /// # Errors
    /// [`QueueError`], when the controller says what can't be: it wants a reset then.
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(Done)) -> Result<usize, QueueError> {
        let mut taken = 0;
        while taken < most {
            let Some(completion) = self.completions.pop()? else { break };
            taken += 1;
            let tag = Tag(completion.identifier());
            let known = self.is_under_way.get_mut(usize::from(tag.0)).filter(|is| **is);
            *known.ok_or(QueueError::Unknown(tag.0))? = false;
            self.free.push(tag);
            if !self.submissions.read_up_to(completion.head()) {
                return Err(QueueError::Beyond(completion.head()));
            }
            each(Done { tag, status: completion.status(), result: completion.result() });
        }
        if taken > 0 {
            self.registers.write_u32(self.place.doorbells[1], self.completions.head().into());
        }
        Ok(taken)
    }
}
