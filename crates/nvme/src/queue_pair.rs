//! A submission queue and its completion queue, for one thread.

use crate::bring_up::check_working;
use crate::link::Link;
use crate::ring::{Completions, Submissions};
use crate::slots::CommandSlots;
use crate::spec::command::{Command, zoned};
use crate::spec::status::Status;
use dma::{BusAddress, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;

/// A command identifier (CID). The low 12 bits index the queue's slot, the high 4 are a generation count, so a stale completion is
/// rejected until the count wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandId(pub u16);

const SLOT_BITS: u32 = 12;
/// The most commands that a queue can have in flight.
pub(crate) const COMMANDS_MAX: u16 = (1 << SLOT_BITS) - 1;

impl CommandId {
    /// Index of the slot, below the number of commands that the queue can have in flight. Commands in flight have different slots,
    /// so it can index what the caller knows of each. The slot is known only after submission, so don't choose the buffer by it: keep
    /// a list of free buffer parts.
    #[inline]
    pub fn slot(self) -> usize {
        usize::from(self.0 & COMMANDS_MAX)
    }

    /// The identifier of the same slot with the next generation count.
    #[inline]
    pub(crate) fn next_generation(self) -> Self {
        Self(self.0.wrapping_add(1 << SLOT_BITS))
    }
}

/// A command that the controller completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// Its identifier.
    pub id: CommandId,
    /// Status code of the completion.
    pub status: Status,
    /// Dwords 0 and 1 of the completion, specific to the command: for an append the first block that it wrote. Most commands have at most
    /// dword 0, and reserve the other.
    pub result: u64,
}

/// Why a queue can't take or complete commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// As many commands are in flight as the queue has slots.
    #[error("all {0} slots of the queue are in use")]
    Full(usize),
    /// The controller completed a command that is not in flight.
    #[error("the controller completed command {0}, which is not in flight")]
    Unknown(u16),
    /// The controller was reset or shut down, and no longer has this queue.
    #[error("the controller was reset and no longer has the queue; Controller::renew creates it again")]
    Reset,
    /// The controller has failed or is gone.
    #[error("the controller has failed or is gone")]
    Failed,
    /// The memory of the command's list is outside the memory given.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

/// Where a queue pair is in memory, by the CPU's and by the controller's addresses, and its doorbells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLayout {
    /// The queue identifier (QID); 0 is the admin queue.
    pub(crate) number: u16,
    pub(crate) submissions: (MemoryAddress, BusAddress),
    pub(crate) completions: (MemoryAddress, BusAddress),
    /// Entries of each ring.
    pub(crate) entries: u16,
    /// Interrupt vector of its completions; a queue without one is polled.
    pub(crate) vector: Option<u16>,
    /// Offsets of the doorbells: submission queue tail, completion queue head.
    pub(crate) doorbells: [u64; 2],
    /// Memory for each slot's PRP or SGL list, [`LIST_BYTES`] each.
    pub(crate) lists: (MemoryAddress, BusAddress),
}

/// Bytes of one command's PRP or SGL list: one controller page.
pub(crate) const LIST_BYTES: u64 = 4096;

/// A queue pair. Its owner submits commands, rings the doorbell once for several of them, and polls for completions. A queue pair
/// that is dropped stays with the controller until a reset, with its memory mapped: [delete](crate::Controller::delete) it.
///
/// It reads no clock: to find commands that take too long, call [`tick`](Self::tick) at regular intervals.
#[derive(Debug)]
pub struct QueuePair {
    link: Arc<Link>,
    /// The link's generation when the controller created this queue.
    generation: u32,
    pub(crate) ram: Arc<Ram>,
    submissions: Submissions,
    completions: Completions,
    pub(crate) layout: QueueLayout,
    /// The tail last written to the doorbell.
    doorbell_tail: u16,
    slots: CommandSlots,
    tick: u32,
    /// Appends that a reset cut off.
    cut_off: Vec<CommandId>,
}

impl QueuePair {
    /// An empty queue pair that was created on the controller with this layout.
    /// Fails if a ring is outside the memory.
    pub(crate) fn new(link: Arc<Link>, ram: Arc<Ram>, layout: QueueLayout) -> Result<Self, NoMemory> {
        // One entry stays unused: a full ring must differ from an empty one (Base, 3.3.1.2).
        let slots = layout.entries.saturating_sub(1).min(COMMANDS_MAX);
        Ok(Self {
            submissions: Submissions::new(Arc::clone(&ram), layout.submissions.0, layout.entries)?,
            completions: Completions::new(Arc::clone(&ram), layout.completions.0, layout.entries)?,
            generation: link.generation(),
            link,
            ram,
            layout,
            doorbell_tail: 0,
            slots: CommandSlots::new(slots),
            tick: 0,
            cut_off: Vec::new(),
        })
    }

    /// The queue identifier (QID), as in the controller's error log.
    pub fn number(&self) -> u16 {
        self.layout.number
    }

    /// How many more commands can be submitted now.
    #[inline]
    pub fn available(&self) -> usize {
        self.slots.count() - self.slots.used()
    }

    /// How many commands are in flight.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.slots.used()
    }

    /// Allocates an identifier and its list memory. [Submit](Self::submit_with) it or [free](Self::free_id) it.
    #[inline]
    pub(crate) fn allocate_id(&mut self) -> Result<CommandId, QueueError> {
        self.slots.allocate().ok_or(QueueError::Full(self.slots.count()))
    }

    /// Makes a command identifier available again.
    pub(crate) fn free_id(&mut self, id: CommandId) {
        self.slots.free(id);
    }

    /// Addresses of a command's list, for the CPU and for the controller.
    #[inline]
    pub(crate) fn list(&self, id: CommandId) -> (MemoryAddress, BusAddress) {
        let offset = id.slot() as u64 * LIST_BYTES;
        let (memory, at) = self.layout.lists;
        (MemoryAddress(memory.0 + offset), BusAddress(at.0 + offset))
    }

    /// Adds a command to the submission queue.
    #[inline]
    pub(crate) fn submit_with(&mut self, id: CommandId, command: Command) {
        let command = command.with_identifier(id.0);
        self.submissions.push(&command);
        self.slots.fill(id, command, self.tick);
    }

    /// Writes a command into the submission queue. The controller sees it after the next [`ring_doorbell`](Self::ring_doorbell).
    ///
    /// A controller reset can execute the command twice, so it must be idempotent. All commands of this crate are, but for
    /// [appends](Self::append), which are not resubmitted.
    ///
    /// # Errors
    /// [`QueueError`]; then the command is not in the queue.
    pub fn submit(&mut self, command: Command) -> Result<CommandId, QueueError> {
        let id = self.allocate_id()?;
        self.submit_with(id, command);
        Ok(id)
    }

    /// Writes the tail doorbell if commands were submitted since the last time: one register write for all of them. After a controller
    /// reset nothing is written; [`poll`](Self::poll) reports the reset.
    #[inline]
    pub fn ring_doorbell(&mut self) {
        let tail = self.submissions.tail();
        if tail != self.doorbell_tail && !self.is_stale() {
            self.link.registers().write_u32(self.layout.doorbells[0], tail.into());
            self.doorbell_tail = tail;
        }
    }

    /// Calls `each` for up to `most` completions that have arrived, without waiting, and returns their number. Completions come in
    /// any order. `each` can't submit, because the queue pair is borrowed: collect what is done, then go on. The example `copy`
    /// keeps several commands in flight.
    ///
    /// # Errors
    /// [`QueueError::Unknown`]: the controller misbehaves and needs a reset. [`QueueError::Reset`]: it was reset.
    #[inline]
    pub fn poll(&mut self, most: usize, mut each: impl FnMut(Done)) -> Result<usize, QueueError> {
        if self.is_stale() {
            return Err(QueueError::Reset);
        }
        let mut taken = 0;
        while taken < most {
            let Some(completion) = self.completions.pop() else { break };
            taken += 1;
            let id = CommandId(completion.identifier());
            if !self.slots.complete(id) {
                return Err(QueueError::Unknown(id.0));
            }
            each(Done { id, status: completion.status(), result: completion.result() });
        }
        if taken > 0 {
            self.link.registers().write_u32(self.layout.doorbells[1], self.completions.head().into());
        }
        Ok(taken)
    }

    /// How many completions have arrived and wait for [`poll`](Self::poll). The doorbell is not written.
    pub fn pending_completions(&self) -> usize {
        self.completions.pending()
    }

    /// Reads whether the controller works, for whoever waits and has no access to it. After a reset by somebody else it does.
    ///
    /// # Errors
    /// [`QueueError::Failed`]
    pub(crate) fn check_working(&self) -> Result<(), QueueError> {
        check_working(self.link.registers()).map_err(|_| QueueError::Failed)
    }

    /// Advances the timeout clock by one tick; the caller sets the tick's length.
    pub fn tick(&mut self) {
        self.tick = self.tick.wrapping_add(1);
    }

    /// Commands that have been in flight for at least `ticks` ticks.
    pub fn overdue(&self, ticks: u32) -> impl Iterator<Item = CommandId> {
        self.slots.overdue(self.tick, ticks)
    }

    /// Takes the identifiers of appends that were in flight at a reset. After [`Controller::renew`](crate::Controller::renew) nobody
    /// completes them: a zone report tells by the write pointers how much was written.
    pub fn take_cut_off(&mut self) -> Vec<CommandId> {
        std::mem::take(&mut self.cut_off)
    }

    /// Whether the controller was reset after it created this queue.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.generation != self.link.generation()
    }

    /// Empties the rings for a controller that was reset. Commands stay in flight.
    pub(crate) fn clear(&mut self) {
        self.submissions.clear();
        self.completions.clear();
        self.doorbell_tail = 0;
    }

    /// Submits the commands in flight again, after the controller created the queue anew. Returns their number.
    pub(crate) fn resubmit_in_flight(&mut self) -> usize {
        self.generation = self.link.generation();
        // Nothing tells whether an append was executed. Another would write its data twice.
        self.cut_off.extend(self.slots.end_all(|command| command.opcode() == zoned::APPEND));
        let mut resubmitted = 0;
        for command in self.slots.resubmit(self.tick) {
            self.submissions.push(command);
            resubmitted += 1;
        }
        self.ring_doorbell();
        resubmitted
    }

    /// Gives up all commands in flight: nobody waits for them any more.
    pub(crate) fn abandon(&mut self) {
        (0..self.slots.count()).for_each(|slot| self.abandon_slot(slot));
    }

    /// Gives up the command of a slot, if one is in flight.
    pub(crate) fn abandon_slot(&mut self, slot: usize) {
        if let Some(id) = self.slots.in_flight(slot) {
            self.slots.free(id.next_generation());
        }
    }
}
