//! CPUs at work: each does the steps of its tasks, and spins where it waits for a lock.

use super::{Event, Machine};
use crate::network::cpu::{Step, Task};
use crate::network::outcome::Stage;
use des::{Calendar, Queue, Span, Time};

impl Machine<'_> {
    /// Gives a CPU something to do.
    pub(super) fn push(
        &mut self,
        host: usize,
        cpu: u32,
        task: Task,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let known = &mut state.cpus[cpu as usize];
        known.push(task);
        if !known.is_busy {
            let is_thread = matches!(task, Task::Write { .. } | Task::Read { .. });
            let delay = if is_thread { state.setup.cpus.wake } else { Span::ZERO };
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
        if !self.hosts[host].cpus[cpu as usize].is_busy {
            self.begin_task(now, host, cpu, calendar);
        }
    }

    /// Begins the next task of a CPU that has none.
    pub(super) fn begin_task(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let core = state.setup.cpus.core(cpu) as usize;
        let known = &mut state.cpus[cpu as usize];
        let was_busy = known.is_busy;
        let task = known.pop();
        known.set_busy(now, task.is_some());
        match (was_busy, task.is_some()) {
            (false, true) => state.busy_in_core[core] += 1,
            (true, false) => state.busy_in_core[core] -= 1,
            _ => {}
        }
        if let Some(task) = task {
            let mut steps = std::mem::take(&mut self.hosts[host].cpus[cpu as usize].steps);
            steps.clear();
            self.plan(host, cpu, task, &mut steps);
            steps.reverse();
            self.hosts[host].cpus[cpu as usize].steps = steps;
            self.go_on(now, host, cpu, calendar);
        }
    }

    /// Does what takes no time, up to the next step that does.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.hosts[host].set_doing(now, cpu, None);
        loop {
            let Some(step) = self.hosts[host].cpus[cpu as usize].steps.pop() else {
                return self.begin_task(now, host, cpu, calendar);
            };
            match step {
                Step::Work(span, stage) => {
                    let state = &mut self.hosts[host];
                    let takes = Span::from_ps_f64(span.as_ps_f64() * state.slowness(cpu));
                    state.set_doing(now, cpu, Some(stage));
                    return calendar.schedule_in(takes, Event::Step { host: host as u8, cpu });
                }
                Step::Acquire(lock) => {
                    if !self.acquire(now, host, cpu, lock, calendar) {
                        return;
                    }
                }
                Step::Release(lock) => self.release(now, host, lock, calendar),
                Step::Then(effect) => self.lead_to(now, host, effect, calendar),
            }
        }
    }

    /// Whether the CPU has the lock at once. If not, its step ends when it has.
    pub(super) fn acquire(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        lock: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) -> bool {
        let state = &mut self.hosts[host];
        let holder = state.setup.cpus.holder(cpu);
        state.set_doing(now, cpu, Some(Stage::Lock));
        match state.mapping.locks[lock as usize].acquire(now, holder, cpu) {
            Ok(Some(transfer)) if transfer > Span::ZERO => {
                calendar.schedule_in(transfer, Event::Step { host: host as u8, cpu });
                false
            }
            Ok(None) => false,
            Ok(Some(_)) | Err(_) => {
                state.set_doing(now, cpu, None);
                true
            }
        }
    }

    pub(super) fn release(
        &mut self,
        now: Time,
        host: usize,
        lock: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        if let Ok(Some(grant)) = state.mapping.locks[lock as usize].release(now) {
            calendar.schedule_in(grant.transfer, Event::Step { host: host as u8, cpu: grant.who });
        }
    }
}
