//! What CPUs do next.

use super::{Event, Machine};
use crate::block::task::Task;
use crate::host::Next;
use des::{Calendar, Queue, Time};

impl Machine<'_> {
    /// Gives a CPU something to do.
    pub(super) fn push(&mut self, cpu: u32, task: Task, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if let Some(delay) = self.processors.push(cpu, task, task.level()) {
            calendar.schedule_in(delay, Event::Begin { cpu });
        }
    }

    pub(super) fn begin_if_idle(
        &mut self,
        now: Time,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.processors.is_busy(cpu) {
            self.run_next_step(now, cpu, calendar);
        }
    }

    /// Does what takes no time, up to the next step that does.
    pub(super) fn run_next_step(
        &mut self,
        now: Time,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        loop {
            match self.processors.next(now, cpu) {
                Next::Waits => return,
                Next::After(span) => return calendar.schedule_in(span, Event::Step { cpu }),
                Next::Granted { cpu, after } => calendar.schedule_in(after, Event::Step { cpu }),
                Next::Then(effect) => self.lead_to(now, effect, calendar),
                Next::Begins(task) => {
                    let mut steps = self.processors.take_steps(cpu);
                    match task {
                        Task::Go { thread, is_woken } => self.plan_go(cpu, thread, is_woken, &mut steps),
                        Task::Complete { queue, by_interrupt } => {
                            self.plan_complete(cpu, queue, by_interrupt, &mut steps);
                        }
                    }
                    self.processors.give_steps(cpu, steps);
                }
            }
        }
    }
}
