//! What CPUs do next.

use super::{Event, Machine};
use crate::flash_array::task::{Effect, Task};
use crate::host::{Next, Stage, Step};
use des::{Calendar, Queue, Time};

impl Machine<'_> {
    /// Gives a CPU something to do.
    pub(super) fn push(&mut self, cpu: u32, task: Task, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if let Some(delay) = self.processors.push(cpu, task, task.level()) {
            calendar.schedule_in(delay, Event::Begin { cpu });
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
                Next::Then(Effect::Polls { thread }) => return self.poll_until_event(now, cpu, thread),
                Next::Then(effect) => self.lead_to(now, effect, calendar),
                Next::Begins(task) => self.plan(cpu, task),
            }
        }
    }

    fn plan(&mut self, cpu: u32, task: Task) {
        let mut steps = self.processors.take_steps(cpu);
        match task {
            Task::Go { thread, is_woken } => self.plan_go(cpu, thread, is_woken, &mut steps),
            Task::Look { thread } => self.plan_look(cpu, thread, &mut steps),
            Task::Complete { queue } => self.plan_complete(cpu, queue, &mut steps),
            Task::Retry { request } => self.plan_sent(cpu, request, &mut steps),
        }
        self.count(&steps);
        self.processors.give_steps(cpu, steps);
    }

    /// Instructions of a task, the hypervisor's apart.
    fn count(&mut self, steps: &[Step<Effect>]) {
        for step in steps {
            if let Step::Work(span, stage) = step {
                let of = usize::from(*stage == Stage::Hypercall);
                self.instructions[of] += span.as_ns_f64() / self.setup.cpus.instruction_ns;
            }
        }
    }
}
