//! Completions, and the interrupts that tell of them.

use super::{Event, Machine};
use crate::block::adapter::WORD_BYTES;
use crate::block::task::Task;
use crate::moderation::Moderation;
use crate::serial::put;
use des::{Calendar, Queue, Span, Time};
use std::collections::VecDeque;

/// A completion queue.
#[derive(Debug, Default)]
pub(super) struct CompletionQueue {
    /// Commands that no task has seen.
    done: VecDeque<u32>,
    /// An interrupt was raised, and what it led to goes on.
    is_taken: bool,
    moderation: Moderation,
}

impl CompletionQueue {
    /// The oldest so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<u32> {
        let all = self.done.len();
        self.done.drain(..all.min(most)).collect()
    }
}

impl Machine<'_> {
    /// A completion is in memory, as far as the adapter knows.
    pub(super) fn posted(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let (adapter, queue) = (self.adapter(), self.commands[command].queue);
        let known = &mut self.queues[queue as usize];
        known.done.push_back(command);
        if known.is_taken {
            return;
        }
        let is_enough = known.done.len() >= adapter.coalesced as usize;
        if is_enough || adapter.coalescing == Span::ZERO {
            self.raise(now, queue, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.coalescing, Event::Due { queue, timer });
        }
    }

    pub(super) fn due(
        &mut self,
        now: Time,
        queue: u32,
        timer: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.queues[queue as usize].moderation.is_over(timer) {
            self.raise(now, queue, calendar);
        }
    }

    /// The adapter writes the message that interrupts a CPU.
    fn raise(&mut self, now: Time, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let known = &mut self.queues[queue as usize];
        known.is_taken = true;
        known.moderation.end();
        self.interrupts += 1;
        let written = self.up.take(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        put(calendar, written + adapter.posted, Event::Interrupt { queue });
    }

    pub(super) fn interrupt(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = self.cpu_of_queue(queue);
        self.push(cpu, Task::Complete { queue, by_interrupt: true }, calendar);
    }

    /// As long as there are completions, they are taken; then the adapter is told how many were.
    pub(super) fn reaped(
        &mut self,
        now: Time,
        queue: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        self.down.take(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        let known = &mut self.queues[queue as usize];
        known.is_taken = !known.done.is_empty();
        if known.is_taken {
            let cpu = self.cpu_of_queue(queue);
            self.push(cpu, Task::Complete { queue, by_interrupt: false }, calendar);
        }
    }

    fn cpu_of_queue(&self, queue: u32) -> u32 {
        self.adapter().cpu_of(queue, self.setup.host.cpus.threads())
    }
}
