//! Completions, and the interrupts that tell of them.

use super::{Event, Machine};
use crate::flash_array::task::Task;
use des::{Calendar, Queue, Time};
use std::collections::VecDeque;

/// A queue's completions.
#[derive(Debug, Default)]
pub(super) struct CompletionQueue {
    /// Commands that no task has seen.
    done: VecDeque<u32>,
    /// An interrupt was raised, and what it led to goes on.
    is_taken: bool,
}

impl CompletionQueue {
    /// The oldest so many.
    pub(super) fn take(&mut self, most: usize) -> Vec<u32> {
        let all = self.done.len();
        self.done.drain(..all.min(most)).collect()
    }
}

impl Machine<'_> {
    /// A completion is in memory. A process looks for its own.
    pub(super) fn posted(&mut self, command: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let queue = self.commands[command].queue;
        self.queues[queue as usize].done.push_back(command);
        if queue >= self.setup.kernel_queues() {
            let thread = self.requests[self.commands[command].request].thread;
            self.stop_polling(self.threads[thread as usize].cpu, calendar);
        } else if !self.queues[queue as usize].is_taken {
            self.interrupt(queue, calendar);
        }
    }

    /// A core is interrupted, each in turn, and on it a hardware thread that is idle, if one is: AIX has the next interrupt come to
    /// whichever CPU takes it.
    fn interrupt(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.queues[queue as usize].is_taken = true;
        let cores = u64::from(self.setup.cpus.cores);
        let cpu = self.processors.place(self.setup.cpus.of_queue((self.interrupts % cores) as u32));
        self.interrupts += 1;
        self.push(cpu, Task::Complete { queue }, calendar);
    }

    /// What was taken of a queue is out of it: what has come since interrupts somebody else.
    pub(super) fn reaped(&mut self, queue: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.queues[queue as usize];
        known.is_taken = false;
        if !known.done.is_empty() {
            self.interrupt(queue, calendar);
        }
    }

    /// A command is done with: who asked has what it wanted, or it is sent again.
    pub(super) fn completed(
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
            return self.give(known.request, calendar);
        }
        if self.paths.failed(now, known.path, known.link) {
            calendar.schedule_in(self.setup.multipath.health_check, Event::Check { path: known.path });
        }
        self.send_again(known.request, cpu, calendar);
    }
}
