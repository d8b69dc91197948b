//! Runs tasks on CPUs.

use super::{BlockModel, Event};
use crate::block::task::Task;
use crate::host::Next;
use des::{Calendar, Queue, Time};

impl BlockModel<'_> {
    /// Queues a task on a CPU, and wakes the CPU if it is idle.
    pub(super) fn schedule_task(
        &mut self,
        cpu: u32,
        task: Task,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if let Some(delay) = self.processors.push(cpu, task, task.level()) {
            calendar.schedule_in(delay, Event::CpuWakeUp { cpu });
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

    /// Runs a CPU's steps up to the next one that takes time.
    pub(super) fn run_next_step(
        &mut self,
        now: Time,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        loop {
            match self.processors.next(now, cpu) {
                Next::Waits => return,
                Next::After(span) => return calendar.schedule_in(span, Event::StepDone { cpu }),
                Next::Granted { cpu, after } => calendar.schedule_in(after, Event::StepDone { cpu }),
                Next::Then(effect) => self.apply_effect(now, effect, calendar),
                Next::Begins(task) => {
                    let mut steps = self.processors.take_steps(cpu);
                    match task {
                        Task::RunThread { thread, is_woken } => {
                            self.plan_thread_run(cpu, thread, is_woken, &mut steps)
                        }
                        Task::ProcessCompletions { queue, by_interrupt } => {
                            self.plan_completions(cpu, queue, by_interrupt, &mut steps);
                        }
                    }
                    self.processors.give_steps(cpu, steps);
                }
            }
        }
    }
}
