//! Runs tasks on CPUs.

use super::{Event, NetworkModel};
use crate::host::Next;
use crate::network::task::Task;
use des::{Calendar, Queue, Time};

impl NetworkModel<'_> {
    /// Queues a task on a CPU, and wakes the CPU if it is idle.
    pub(super) fn schedule_task(
        &mut self,
        host: usize,
        cpu: u32,
        task: Task,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if let Some(delay) = self.hosts[host].processors.push(cpu, task, task.level()) {
            calendar.schedule_in(delay, Event::CpuWakeUp { host: host as u8, cpu });
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

    /// Runs a CPU's steps up to the next one that takes time.
    pub(super) fn run_next_step(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let step = |cpu| Event::StepDone { host: host as u8, cpu };
        loop {
            match self.hosts[host].processors.next(now, cpu) {
                Next::Waits => match self.hosts[host].processors.pull(cpu) {
                    Some(task) => return self.schedule_task(host, cpu, task, calendar),
                    None => return,
                },
                Next::After(span) => return calendar.schedule_in(span, step(cpu)),
                Next::Granted { cpu, after } => calendar.schedule_in(after, step(cpu)),
                Next::Then(effect) => self.apply_effect(now, host, cpu, effect, calendar),
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
