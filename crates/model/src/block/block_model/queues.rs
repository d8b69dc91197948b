//! Completion queues and their interrupts.

use super::{BlockModel, Event};
use crate::block::nvme_adapter::WORD_BYTES;
use crate::block::task::Task;
use crate::moderation::Moderation;
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Span, Time};
use std::collections::VecDeque;

/// A completion queue.
#[derive(Debug, Default)]
pub(super) struct CompletionQueue {
    /// Completed commands that no task has taken yet.
    done: VecDeque<u32>,
    /// An interrupt was raised whose task has not drained the queue yet.
    interrupt_is_pending: bool,
    moderation: Moderation,
}

impl CompletionQueue {
    /// Takes up to `most` of the oldest commands.
    pub(super) fn take(&mut self, most: usize) -> Vec<u32> {
        let all = self.done.len();
        self.done.drain(..all.min(most)).collect()
    }
}

impl BlockModel<'_> {
    /// A completion was written to memory. Raises an interrupt, or starts the coalescing timer.
    pub(super) fn post_completion(
        &mut self,
        now: Time,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let (adapter, queue) = (self.adapter(), self.commands[command].queue);
        let known = &mut self.queues[queue as usize];
        known.done.push_back(command);
        if known.interrupt_is_pending {
            return;
        }
        let is_enough = known.done.len() >= adapter.coalesced as usize;
        if is_enough || adapter.coalescing == Span::ZERO {
            self.raise_interrupt(now, queue, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.coalescing, Event::CoalescingTimer { queue, timer });
        }
    }

    pub(super) fn coalescing_timer_expired(
        &mut self,
        now: Time,
        queue: u32,
        timer: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.queues[queue as usize].moderation.is_over(timer) {
            self.raise_interrupt(now, queue, calendar);
        }
    }

    /// The adapter writes the MSI-X message.
    fn raise_interrupt(&mut self, now: Time, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let adapter = self.adapter();
        let known = &mut self.queues[queue as usize];
        known.interrupt_is_pending = true;
        known.moderation.end();
        self.interrupts += 1;
        let written = self.up.occupy(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        schedule_at(calendar, written + adapter.posted, Event::Interrupt { queue });
    }

    /// An interrupt has arrived: its CPU processes the completions of the queue.
    pub(super) fn handle_interrupt(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = self.cpu_of_queue(queue);
        self.schedule_task(cpu, Task::ProcessCompletions { queue, by_interrupt: true }, calendar);
    }

    /// The task has drained the queue. Processes further completions; if there are none, writes the head doorbell.
    pub(super) fn queue_drained(
        &mut self,
        now: Time,
        queue: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let adapter = self.adapter();
        self.down.occupy(now, adapter.link.time_of(adapter.link.write_bytes(0, WORD_BYTES)));
        let known = &mut self.queues[queue as usize];
        known.interrupt_is_pending = !known.done.is_empty();
        if known.interrupt_is_pending {
            let cpu = self.cpu_of_queue(queue);
            self.schedule_task(cpu, Task::ProcessCompletions { queue, by_interrupt: false }, calendar);
        }
    }

    fn cpu_of_queue(&self, queue: u32) -> u32 {
        self.adapter().cpu_of(queue, self.setup.host.cpus.threads())
    }
}
