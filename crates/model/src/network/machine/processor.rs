//! What CPUs do next.

use super::{Event, Machine};
use crate::host::Next;
use crate::network::task::Task;
use des::{Calendar, Queue, Time};

impl Machine<'_> {
    /// Gives a CPU something to do.
    pub(super) fn push(
        &mut self,
        host: usize,
        cpu: u32,
        task: Task,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if let Some(delay) = self.hosts[host].processors.push(cpu, task, task.level()) {
            calendar.schedule_in(delay, Event::Begin { host: host as u8, cpu });
        }
    }

    pub(super) fn begin_if_idle(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.hosts[host].processors.is_busy(cpu) {
            self.run_next_step(now, host, cpu, calendar);
        }
    }

    /// Does what takes no time, up to the next step that does.
    pub(super) fn run_next_step(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let step = |cpu| Event::Step { host: host as u8, cpu };
        loop {
            match self.hosts[host].processors.next(now, cpu) {
                Next::Waits => match self.hosts[host].processors.pull(cpu) {
                    Some(task) => return self.push(host, cpu, task, calendar),
                    None => return,
                },
                Next::After(span) => return calendar.schedule_in(span, step(cpu)),
                Next::Granted { cpu, after } => calendar.schedule_in(after, step(cpu)),
                Next::Then(effect) => self.lead_to(now, host, effect, calendar),
                Next::Begins(task) => {
                    if let Task::Write { flow } | Task::Read { flow } = task {
                        self.flows[flow as usize].cpus[host] = cpu;
                    }
                    let mut steps = self.hosts[host].processors.take_steps(cpu);
                    self.plan(host, cpu, task, &mut steps);
                    self.hosts[host].processors.give_steps(cpu, steps);
                }
            }
        }
    }
}
