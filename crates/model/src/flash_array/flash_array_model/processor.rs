//! Runs tasks on CPUs.

use super::{Event, FlashArrayModel};
use crate::flash_array::task::{Effect, Task};
use crate::host::{Next, Stage, Step};
use des::{Calendar, Queue, Time};

impl FlashArrayModel<'_> {
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
        self.stop_polling(cpu, calendar);
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
                Next::Then(Effect::PollingStarts { thread }) => {
                    return self.poll_until_event(now, cpu, thread);
                }
                Next::Then(effect) => self.apply_effect(now, effect, calendar),
                Next::Begins(task) => self.plan(cpu, task),
            }
        }
    }

    fn plan(&mut self, cpu: u32, task: Task) {
        let mut steps = self.processors.take_steps(cpu);
        match task {
            Task::RunThread { thread, is_woken } => self.plan_thread_run(cpu, thread, is_woken, &mut steps),
            Task::PollQueue { thread } => self.plan_poll(cpu, thread, &mut steps),
            Task::HandleInterrupt { queue } => self.plan_interrupt(cpu, queue, &mut steps),
            Task::Resubmit { request } => self.plan_submission(cpu, request, &mut steps),
        }
        self.count_instructions(&steps);
        self.processors.give_steps(cpu, steps);
    }

    /// Counts the instructions of a task, those of the hypervisor separately.
    fn count_instructions(&mut self, steps: &[Step<Effect>]) {
        for step in steps {
            if let Step::Work(span, stage) = step {
                let of = usize::from(*stage == Stage::Hypercall);
                self.instructions[of] += span.as_ns_f64() / self.setup.cpus.instruction_ns;
            }
        }
    }
}
