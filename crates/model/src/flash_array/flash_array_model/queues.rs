//! Completion queues and their interrupts.

use super::{Event, FlashArrayModel};
use crate::flash_array::task::Task;
use des::{Calendar, Queue, Time};
use std::collections::VecDeque;

/// A completion queue.
#[derive(Debug, Default)]
pub(super) struct CompletionQueue {
    /// Completed commands that no task has taken yet.
    done: VecDeque<u32>,
    /// An interrupt was raised whose task has not drained the queue yet.
    interrupt_is_pending: bool,
}

impl CompletionQueue {
    /// Takes up to `most` of the oldest commands.
    pub(super) fn take(&mut self, most: usize) -> Vec<u32> {
        let all = self.done.len();
        self.done.drain(..all.min(most)).collect()
    }
}

impl FlashArrayModel<'_> {
    /// A completion was written to memory. The kernel's queues interrupt; a thread polls its own queue.
    pub(super) fn post_completion(
        &mut self,
        command: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let queue = self.commands[command].queue;
        self.queues[queue as usize].done.push_back(command);
        if queue >= self.setup.kernel_queues() {
            let thread = self.requests[self.commands[command].request].thread;
            self.stop_polling(self.threads[thread as usize].cpu, calendar);
        } else if !self.queues[queue as usize].interrupt_is_pending {
            self.interrupt(queue, calendar);
        }
    }

    /// Interrupts the cores in turn, and on a core an idle hardware thread if there is one. AIX delivers an interrupt
    /// to whichever CPU accepts it.
    fn interrupt(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.queues[queue as usize].interrupt_is_pending = true;
        let cores = u64::from(self.setup.cpus.cores);
        let cpu = self.processors.place(self.setup.cpus.of_queue((self.interrupts % cores) as u32));
        self.interrupts += 1;
        self.schedule_task(cpu, Task::HandleInterrupt { queue }, calendar);
    }

    /// The interrupt's task has drained the queue. Completions that arrived meanwhile raise the next interrupt.
    pub(super) fn queue_drained(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.queues[queue as usize];
        known.interrupt_is_pending = false;
        if !known.done.is_empty() {
            self.interrupt(queue, calendar);
        }
    }

    /// A command has completed: its request is finished, or is resubmitted if the link was lost.
    pub(super) fn complete_command(
        &mut self,
        now: Time,
        command: u32,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = self.commands[command];
        self.commands.free(command);
        self.paths.returned(known.path);
        if !known.is_lost {
            return self.deliver_result(known.request, calendar);
        }
        if self.paths.failed(now, known.path, known.link) {
            calendar.schedule_in(self.setup.multipath.health_check, Event::HealthCheck { path: known.path });
        }
        self.resubmit(known.request, cpu, calendar);
    }
}
