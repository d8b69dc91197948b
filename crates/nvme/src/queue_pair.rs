//! A submission queue and its completion queue, for one thread.

use crate::link::Link;
use crate::ring::{Completions, Submissions};
use crate::spec::command::Command;
use crate::spec::status::Status;
use dma::{BusAddress, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;

/// A command under way, by its identifier: the place that it has among a queue's commands, and in the upper four bits which of those that
/// had it before this is. A completion that comes twice, or late, is not taken for another command's, but for the sixteenth behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(pub u16);

const PLACE_BITS: u32 = 12;
/// Commands of a queue at most.
pub(crate) const COMMANDS_MAX: u16 = (1 << PLACE_BITS) - 1;

impl Tag {
    /// Its place, below the number of commands that the queue has room for. No other command under way has it.
    #[inline]
    pub fn place(self) -> usize {
        usize::from(self.0 & COMMANDS_MAX)
    }

    /// The next that has the place.
    #[inline]
    fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << PLACE_BITS))
    }
}

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
    /// The controller was reset or shut down, and no longer has this queue.
    #[error("the controller was reset since, and has forgotten the queue; Controller::renew brings it back")]
    Forgotten,
    /// The rings are not where they were said to be.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

/// Where a queue pair lies: rings, as the CPU and as the controller find them, and doorbells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The pair's number; 0 is the admin queue's.
    pub(crate) number: u16,
    pub(crate) submissions: (MemoryAddress, BusAddress),
    pub(crate) completions: (MemoryAddress, BusAddress),
    /// Entries of either.
    pub(crate) entries: u16,
    /// The interrupt of its completions; without one it is polled.
    pub(crate) vector: Option<u16>,
    /// Of the submission queue's tail, and the completion queue's head.
    pub(crate) doorbells: [u64; 2],
    /// Memory for the lists of each command, [`LIST_BYTES`] each.
    pub(crate) lists: (MemoryAddress, BusAddress),
}

/// Bytes of a command's list: a page of the controller's.
pub(crate) const LIST_BYTES: u64 = 4096;

/// What a tag stands for.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// As it was submitted: it is submitted again after a reset.
    command: Command,
    is_under_way: bool,
    /// The tick in which it was submitted.
    since: u32,
}

/// A queue pair. Its owner submits commands, rings the doorbell once for several of them, and polls for completions.
///
/// It keeps no time: who wants to know which commands take long, [ticks](Self::tick) now and then.
#[derive(Debug)]
pub struct QueuePair {
    link: Arc<Link>,
    /// Of the link, when the controller was given this queue.
    generation: u32,
    pub(crate) ram: Arc<Ram>,
    submissions: Submissions,
    completions: Completions,
    pub(crate) place: Place,
    /// The tail that the controller knows.
    told: u16,
    free: Vec<Tag>,
    slots: Vec<Slot>,
    tick: u32,
}

impl QueuePair {
    pub(crate) fn new(link: Arc<Link>, ram: Arc<Ram>, place: Place) -> Self {
        // One entry stays free, by which a full ring is told from an empty one.
        let room = place.entries.saturating_sub(1).min(COMMANDS_MAX);
        let empty = Slot { command: Command([0; 8]), is_under_way: false, since: 0 };
        Self {
            submissions: Submissions::new(Arc::clone(&ram), place.submissions.0, place.entries),
            completions: Completions::new(Arc::clone(&ram), place.completions.0, place.entries),
            generation: link.generation(),
            link,
            ram,
            place,
            told: 0,
            free: (0..room).rev().map(Tag).collect(),
            slots: vec![empty; room.into()],
            tick: 0,
        }
    }

    /// Its number, which the controller's error log names.
    pub fn number(&self) -> u16 {
        self.place.number
    }

    /// Commands that may still be submitted.
    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Commands under way.
    #[inline]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A tag for a command to come, with the memory of its list. It has to be [submitted](Self::submit_as) or [put back](Self::put_back).
    #[inline]
    pub(crate) fn take(&mut self) -> Result<Tag, QueueError> {
        self.free.pop().ok_or(QueueError::Full(self.slots.len()))
    }

    pub(crate) fn put_back(&mut self, tag: Tag) {
        self.free.push(tag);
    }

    /// Where a command's list is, for the CPU and for the controller.
    #[inline]
    pub(crate) fn list(&self, tag: Tag) -> (MemoryAddress, BusAddress) {
        let offset = tag.place() as u64 * LIST_BYTES;
        let (memory, at) = self.place.lists;
        (MemoryAddress(memory.0 + offset), BusAddress(at.0 + offset))
    }

    #[inline]
    pub(crate) fn submit_as(&mut self, tag: Tag, command: Command) -> Result<(), QueueError> {
        let command = command.known_as(tag.0);
        if let Err(error) = self.submissions.push(&command) {
            self.put_back(tag);
            return Err(error.into());
        }
        self.slots[tag.place()] = Slot { command, is_under_way: true, since: self.tick };
        Ok(())
    }

    /// Puts a command into the queue. The controller begins with it after the next [`ring`](Self::ring).
    ///
    /// After a reset it may be carried out once more: that has to be the same as once, as it is of all commands here.
    ///
    /// # Errors
    /// [`QueueError`]; then the command is not in the queue.
    pub fn submit(&mut self, command: Command) -> Result<Tag, QueueError> {
        let tag = self.take()?;
        self.submit_as(tag, command)?;
        Ok(tag)
    }

    /// Tells the controller of what was submitted since the last time: one write, however much it is. A controller that was reset since
    /// is told nothing: [`poll`](Self::poll) says so.
    #[inline]
    pub fn ring(&mut self) {
        let tail = self.submissions.tail();
        if tail != self.told && !self.is_forgotten() {
            self.link.registers().write_u32(self.place.doorbells[0], tail.into());
            self.told = tail;
        }
    }

    /// Takes what is completed, up to `most`, and says how much that was. It does not wait.
    ///
    /// # Errors
    /// [`QueueError`], when the controller says what can't be, and wants a reset, or when it was reset.
    #[inline]
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(Done)) -> Result<usize, QueueError> {
        if self.is_forgotten() {
            return Err(QueueError::Forgotten);
        }
        let mut taken = 0;
        while taken < most {
            let Some(completion) = self.completions.pop()? else { break };
            taken += 1;
            let tag = Tag(completion.identifier());
            let slot = self
                .slots
                .get_mut(tag.place())
                .filter(|slot| slot.is_under_way && slot.command.identifier() == tag.0);
            slot.ok_or(QueueError::Unknown(tag.0))?.is_under_way = false;
            self.free.push(tag.next());
            each(Done { tag, status: completion.status(), result: completion.result() });
        }
        if taken > 0 {
            self.link.registers().write_u32(self.place.doorbells[1], self.completions.head().into());
        }
        Ok(taken)
    }

    /// Completions that have arrived, and were not taken yet. None is taken, and the controller is told nothing.
    pub fn arrived(&self) -> usize {
        // Rings that are not where they were said to be have nothing in them; polling says why.
        self.completions.arrived().unwrap_or_default()
    }

    /// A tick of a clock is over, however long its owner has them be.
    pub fn tick(&mut self) {
        self.tick = self.tick.wrapping_add(1);
    }

    /// Commands that have been under way for so many ticks at least.
    pub fn overdue(&self, ticks: u32) -> impl Iterator<Item = Tag> {
        let is_overdue = move |slot: &Slot| slot.is_under_way && self.tick.wrapping_sub(slot.since) >= ticks;
        self.slots.iter().filter(move |slot| is_overdue(slot)).map(|slot| Tag(slot.command.identifier()))
    }

    /// Whether the controller was reset since it was given this queue.
    #[inline]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.generation != self.link.generation()
    }

    /// Empties its rings for a controller that has forgotten it. What is under way stays so.
    pub(crate) fn clear(&mut self) -> Result<(), QueueError> {
        self.submissions.clear();
        self.completions.clear()?;
        self.told = 0;
        Ok(())
    }

    /// The controller has it again: what is under way begins once more. Says how many commands that is.
    pub(crate) fn begin_again(&mut self) -> Result<usize, QueueError> {
        self.generation = self.link.generation();
        let mut begun = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.is_under_way) {
            self.submissions.push(&slot.command)?;
            slot.since = self.tick;
            begun += 1;
        }
        self.ring();
        Ok(begun)
    }

    /// Forgets all that is under way: nobody waits for it any more.
    pub(crate) fn abandon(&mut self) {
        (0..self.slots.len()).for_each(|place| self.abandon_at(place));
    }

    /// Forgets the command that has a place, if it is under way.
    pub(crate) fn abandon_at(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        if std::mem::take(&mut slot.is_under_way) {
            self.free.push(Tag(slot.command.identifier()).next());
        }
    }
}
