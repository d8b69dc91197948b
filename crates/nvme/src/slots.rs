//! The slots of a queue pair's commands.

use crate::queue_pair::{COMMANDS_MAX, CommandId};
use crate::spec::command::Command;

/// A slot: the last command that used it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Kept to submit it again after a reset.
    command: Command,
    state: SlotState,
    /// The tick in which it was submitted.
    submitted_tick: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// No command uses the slot. The next free one follows; the last of them leads to [`NO_SLOT`].
    Free { next: CommandId },
    /// The command with this identifier is in flight.
    InFlight { id: CommandId },
}

/// An identifier of no slot: there are at most [`COMMANDS_MAX`] slots, and the first is 0.
const NO_SLOT: CommandId = CommandId(COMMANDS_MAX);

/// The commands of a queue pair. Free slots are a linked list, because finding the slot of a command then already checks whether one is free. The
/// slot used last is the next, and is still in the cache.
#[derive(Debug)]
pub(crate) struct CommandSlots {
    slots: Box<[Slot]>,
    /// The identifier that the next command gets.
    next: CommandId,
    used: usize,
}

impl CommandSlots {
    /// So many free slots, at most [`COMMANDS_MAX`].
    pub(crate) fn new(count: u16) -> Self {
        let count = count.min(COMMANDS_MAX);
        let next_of = |slot| if slot + 1 == count { NO_SLOT } else { CommandId(slot + 1) };
        let free = |slot| Slot {
            command: Command([0; 8]),
            state: SlotState::Free { next: next_of(slot) },
            submitted_tick: 0,
        };
        let next = if count == 0 { NO_SLOT } else { CommandId(0) };
        Self { slots: (0..count).map(free).collect(), next, used: 0 }
    }

    /// The number of slots.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// The number of slots that are in use.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes a free slot. [Fill](Self::fill) it or [free](Self::free) it.
    #[inline]
    pub(crate) fn allocate(&mut self) -> Option<CommandId> {
        let id = self.next;
        // A slot in use is never the next one.
        let SlotState::Free { next } = self.slots.get(id.slot())?.state else { return None };
        self.next = next;
        self.used += 1;
        Some(id)
    }

    /// Makes an allocated slot available again, with this identifier.
    #[inline]
    pub(crate) fn free(&mut self, id: CommandId) {
        self.slots[id.slot()].state = SlotState::Free { next: self.next };
        self.next = id;
        self.used -= 1;
    }

    /// Keeps the command that was submitted with an allocated slot's identifier.
    #[inline]
    pub(crate) fn fill(&mut self, id: CommandId, command: Command, submitted_tick: u32) {
        self.slots[id.slot()] = Slot { command, state: SlotState::InFlight { id }, submitted_tick };
    }

    /// Ends the command in flight with this identifier, and frees its slot. False if there is none.
    #[inline]
    #[must_use]
    pub(crate) fn complete(&mut self, id: CommandId) -> bool {
        let Some(slot) = self.slots.get_mut(id.slot()) else { return false };
        if slot.state != (SlotState::InFlight { id }) {
            return false;
        }
        slot.state = SlotState::Free { next: self.next };
        self.next = id.next_generation();
        self.used -= 1;
        true
    }

    /// The identifier of the command that a slot has in flight.
    pub(crate) fn in_flight(&self, slot: usize) -> Option<CommandId> {
        match self.slots.get(slot)?.state {
            SlotState::InFlight { id } => Some(id),
            SlotState::Free { .. } => None,
        }
    }

    /// Identifiers of the commands in flight that were submitted at least so many ticks before `tick`.
    pub(crate) fn overdue(&self, tick: u32, ticks: u32) -> impl Iterator<Item = CommandId> {
        self.slots.iter().filter_map(move |slot| match slot.state {
            SlotState::InFlight { id } => (tick.wrapping_sub(slot.submitted_tick) >= ticks).then_some(id),
            SlotState::Free { .. } => None,
        })
    }

    /// Ends the commands in flight that are meant, and frees their slots. Returns their identifiers.
    pub(crate) fn end_all(&mut self, is_meant: impl Fn(&Command) -> bool) -> Vec<CommandId> {
        let ended: Vec<CommandId> = self
            .slots
            .iter()
            .filter(|slot| is_meant(&slot.command))
            .filter_map(|slot| match slot.state {
                SlotState::InFlight { id } => Some(id),
                SlotState::Free { .. } => None,
            })
            .collect();
        ended.iter().for_each(|id| self.free(id.next_generation()));
        ended
    }

    /// The commands in flight, which are all submitted again in this tick.
    pub(crate) fn resubmit(&mut self, tick: u32) -> impl Iterator<Item = &Command> {
        self.slots.iter_mut().filter(|slot| matches!(slot.state, SlotState::InFlight { .. })).map(
            move |slot| {
                slot.submitted_tick = tick;
                &slot.command
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn command(first: u64) -> Command {
        Command::read(1, first, 8, [0x1000, 0])
    }

    /// The commands in flight, each with its tick, by identifier.
    type Model = BTreeMap<u16, (u64, u32)>;

    fn check(slots: &CommandSlots, model: &Model, tick: u32) {
        assert_eq!(slots.used(), model.len());
        let mut in_flight: Vec<u16> =
            (0..slots.count()).filter_map(|slot| slots.in_flight(slot)).map(|id| id.0).collect();
        in_flight.sort_unstable();
        assert_eq!(in_flight, model.keys().copied().collect::<Vec<_>>());
        let mut overdue: Vec<u16> = slots.overdue(tick, 2).map(|id| id.0).collect();
        overdue.sort_unstable();
        let late = model.iter().filter(|(_, (_, submitted))| tick - submitted >= 2).map(|(id, _)| *id);
        assert_eq!(overdue, late.collect::<Vec<_>>());
    }

    proptest! {
        /// Each step: a command is submitted (0, 1), the command in flight at a place completes (2), is submitted and freed at once (3), or
        /// an identifier completes that may not be in flight (4).
        #[test]
        fn slots_are_used_by_one_command_each(count in 0_u16..5, steps in prop::collection::vec((0_u8..5, any::<u16>()), 0..60)) {
            let (mut slots, mut model) = (CommandSlots::new(count), Model::new());
            // The identifier that each slot's next command gets.
            let mut next: Vec<CommandId> = (0..count).map(CommandId).collect();
            for (tick, (step, word)) in (0_u32..).zip(steps) {
                match step {
                    0 | 1 | 3 => {
                        let id = slots.allocate();
                        prop_assert_eq!(id.is_some(), model.len() < usize::from(count));
                        let Some(id) = id else { continue };
                        prop_assert_eq!(next[id.slot()], id);
                        if step == 3 {
                            slots.free(id);
                        } else {
                            slots.fill(id, command(word.into()), tick);
                            model.insert(id.0, (word.into(), tick));
                        }
                    }
                    2 => {
                        let Some(id) = model.keys().nth(usize::from(word) % model.len().max(1)).copied() else { continue };
                        model.remove(&id);
                        prop_assert!(slots.complete(CommandId(id)));
                        next[CommandId(id).slot()] = CommandId(id).next_generation();
                        prop_assert!(!slots.complete(CommandId(id)), "it has completed");
                    }
                    _ => {
                        prop_assert_eq!(slots.complete(CommandId(word)), model.contains_key(&word));
                        if model.remove(&word).is_some() {
                            next[CommandId(word).slot()] = CommandId(word).next_generation();
                        }
                    }
                }
                check(&slots, &model, tick);
            }
            let even = |command: &Command| command.0[5] % 2 == 0;
            let mut ended: Vec<u16> = slots.end_all(even).into_iter().map(|id| id.0).collect();
            ended.sort_unstable();
            let meant = model.iter().filter(|(_, (first, _))| first % 2 == 0).map(|(id, _)| *id);
            prop_assert_eq!(ended, meant.collect::<Vec<_>>());
            model.retain(|_, (first, _)| *first % 2 == 1);
            check(&slots, &model, 99);
            let mut again: Vec<Command> = slots.resubmit(99).copied().collect();
            again.sort_unstable_by_key(|command| command.0[5]);
            let mut firsts: Vec<u64> = model.values().map(|(first, _)| *first).collect();
            firsts.sort_unstable();
            prop_assert_eq!(again, firsts.into_iter().map(command).collect::<Vec<_>>());
            prop_assert_eq!(slots.overdue(100, 2).count(), 0, "they are submitted anew");
        }
    }

    #[test]
    fn a_queue_has_at_most_as_many_slots_as_identifiers_have() {
        let mut slots = CommandSlots::new(u16::MAX);
        assert_eq!(slots.count(), usize::from(COMMANDS_MAX));
        let ids: Vec<CommandId> = std::iter::from_fn(|| slots.allocate()).collect();
        assert_eq!((ids.len(), slots.used()), (slots.count(), slots.count()));
        slots.free(ids[7].next_generation());
        assert_eq!(slots.allocate(), Some(CommandId(7 | 1 << 12)));
    }
}
