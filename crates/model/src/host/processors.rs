//! All CPUs of a host: executes the steps of tasks, and spins for locks.

use super::cpu::{Cpu, Level, Step};
use super::cpus::Cpus;
use super::invalidation_queue::{Commands, InvalidationQueue};
use super::mapping::Mapping;
use super::stage::Stage;
use super::usage::Counts;
use des::{Lock, Misuse, Span, Time, TimeAverage, TransferCost};
use dma::DmaCounters;

/// The CPUs of a host, and their locks.
#[derive(Debug)]
pub(crate) struct Processors<T, E> {
    pub(crate) setup: Cpus,
    cpus: Vec<Cpu<T, E>>,
    /// Number of queued tasks that are threads.
    waiting_threads: usize,
    /// Number of queued tasks, and of all that were queued since the start.
    queued: u64,
    pushed: u64,
    locks: Vec<Lock<u32>>,
    /// The invalidation queue.
    commands: Option<Commands>,
    /// Busy hardware threads per core.
    busy_in_core: Vec<u32>,
    /// Number of cores with 0, 1, ... busy hardware threads.
    cores_by_busy: Vec<TimeAverage>,
    /// Time by stage, of what is over.
    stages: [Span; 5],
}

/// A CPU's next action.
#[derive(Debug)]
pub(crate) enum Next<T, E> {
    /// It is busy for this long; then call `next` again.
    After(Span),
    /// It waits for a lock or has no task. Another CPU's release, or a new task, continues it.
    Waits,
    /// Another CPU got a lock and continues after this time. Call `next` for this CPU again.
    Granted { cpu: u32, after: Span },
    /// Apply this effect, then call `next` again.
    Then(E),
    /// A task starts. Supply its steps, then call `next` again.
    Begins(T),
}

impl<T, E> Processors<T, E> {
    /// CPUs with one lock per item: the number of cache lines that move with it.
    ///
    /// # Errors
    /// [`Misuse`]: an invalid lock parameter.
    pub(crate) fn new(setup: &Cpus, lines: impl Iterator<Item = f64>) -> Result<Self, Misuse> {
        let times = |span: Span, lines: f64| Span::from_ps_f64(span.as_ps_f64() * lines);
        let lock = |lines: f64| {
            Lock::new(TransferCost {
                same_cpu: Span::ZERO,
                same_node: times(setup.line.same_node, lines),
                other_node: times(setup.line.other_node, lines),
            })
        };
        let mut cores_by_busy = vec![TimeAverage::default(); setup.threads_per_core() as usize + 1];
        cores_by_busy[0].set(Time::ZERO, setup.cores.into())?;
        Ok(Self {
            setup: setup.clone(),
            cpus: (0..setup.threads()).map(|_| Cpu::new()).collect(),
            waiting_threads: 0,
            queued: 0,
            pushed: 0,
            locks: lines.map(lock).collect::<Result<_, _>>()?,
            commands: None,
            busy_in_core: vec![0; setup.cores as usize],
            cores_by_busy,
            stages: [Span::ZERO; 5],
        })
    }

    /// Adds an invalidation queue.
    pub(crate) fn with_queue(mut self, queue: Option<InvalidationQueue>) -> Self {
        self.commands = queue.map(|queue| Commands::new(queue, self.setup.threads()));
        self
    }

    /// Queues a task. If the CPU is idle, returns the delay after which to call `next`.
    pub(crate) fn push(&mut self, cpu: u32, task: T, level: Level) -> Option<Span> {
        let known = &mut self.cpus[cpu as usize];
        known.push(task, level);
        (self.queued, self.pushed) = (self.queued + 1, self.pushed + 1);
        self.waiting_threads += usize::from(level == Level::Thread);
        let delay = if level == Level::Thread { self.setup.wake } else { Span::ZERO };
        (!known.is_busy).then_some(delay)
    }

    pub(crate) fn is_busy(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].is_busy
    }

    /// Whether tasks are queued on a CPU.
    pub(crate) fn has_next(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].has_next()
    }

    /// Lets a CPU repeat an action until it is stopped. Returns its duration at the core's current load.
    pub(crate) fn spin(&mut self, now: Time, cpu: u32, span: Span, stage: Stage) -> Span {
        self.set_doing(now, cpu, Some(stage));
        Span::from_ps_f64(span.as_ps_f64() * self.slowness(cpu))
    }

    /// The CPU on which a woken thread continues: its last one, unless that has other tasks and another CPU is idle,
    /// preferably on the same core or node.
    pub(crate) fn place(&self, cpu: u32) -> u32 {
        if self.cpus[cpu as usize].is_idle() {
            return cpu;
        }
        let is_free = |other: &u32| self.cpus[*other as usize].is_idle();
        self.setup.near(cpu).find(is_free).unwrap_or(cpu)
    }

    /// Takes a thread queued on another CPU, for an idle CPU. As in Linux, a thread must not starve behind interrupts
    /// (`kernel/sched/fair.c`, `newidle_balance`).
    pub(crate) fn pull(&mut self, cpu: u32) -> Option<T> {
        if self.waiting_threads == 0 || !self.cpus[cpu as usize].is_idle() {
            return None;
        }
        let Self { setup, cpus, .. } = self;
        let task = setup.near(cpu).find_map(|other| cpus[other as usize].pop_waiting_thread())?;
        self.waiting_threads -= 1;
        self.queued -= 1;
        Some(task)
    }

    /// An empty list for the steps of a new task.
    pub(crate) fn take_steps(&mut self, cpu: u32) -> Vec<Step<E>> {
        std::mem::take(&mut self.cpus[cpu as usize].steps)
    }

    /// Supplies the steps of a new task, in order.
    pub(crate) fn give_steps(&mut self, cpu: u32, mut steps: Vec<Step<E>>) {
        steps.reverse();
        self.cpus[cpu as usize].steps = steps;
    }

    /// Adds steps to the current task of a CPU, ahead of those that are left. Leaves `steps` empty.
    pub(crate) fn insert_steps(&mut self, cpu: u32, steps: &mut Vec<Step<E>>) {
        self.cpus[cpu as usize].steps.extend(steps.drain(..).rev());
    }

    /// Number of tasks that wait for their CPU.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Number of tasks that were queued since the start.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Executes a CPU's steps up to the next one that takes time or involves others.
    pub(crate) fn next(&mut self, now: Time, cpu: u32) -> Next<T, E> {
        self.set_doing(now, cpu, None);
        loop {
            let Some(step) = self.cpus[cpu as usize].steps.pop() else {
                return self.begin(now, cpu);
            };
            match step {
                Step::Work(span, stage) => {
                    return Next::After(self.spin(now, cpu, span, stage));
                }
                Step::Wait(span, stage) => {
                    self.set_doing(now, cpu, Some(stage));
                    return Next::After(span);
                }
                Step::Acquire(lock) => {
                    if let Some(next) = self.acquire(now, cpu, lock) {
                        return next;
                    }
                }
                Step::Release(lock) => {
                    if let Ok(Some(grant)) = self.locks[lock as usize].release(now) {
                        return Next::Granted { cpu: grant.who, after: grant.transfer };
                    }
                }
                Step::Submit(takes) => {
                    if let Some(next) = self.submit(now, cpu, takes) {
                        return next;
                    }
                }
                Step::Await => {
                    let left = self.commands.as_ref().map_or(Span::ZERO, |commands| commands.wait(now, cpu));
                    if left > Span::ZERO {
                        self.set_doing(now, cpu, Some(Stage::Invalidation));
                        return Next::After(left);
                    }
                }
                Step::Then(effect) => return Next::Then(effect),
            }
        }
    }

    /// Starts the next task of a CPU.
    fn begin(&mut self, now: Time, cpu: u32) -> Next<T, E> {
        let core = self.setup.core(cpu) as usize;
        let known = &mut self.cpus[cpu as usize];
        let was_busy = known.is_busy;
        let popped = known.pop();
        self.waiting_threads -= usize::from(matches!(popped, Some((_, Level::Thread))));
        self.queued -= u64::from(popped.is_some());
        let task = popped.map(|(task, _)| task);
        known.set_busy(now, task.is_some());
        let busy = self.busy_in_core[core];
        match (was_busy, task.is_some()) {
            (false, true) => self.set_busy_in_core(now, core, busy + 1),
            (true, false) => self.set_busy_in_core(now, core, busy - 1),
            _ => {}
        }
        task.map_or(Next::Waits, Next::Begins)
    }

    fn set_busy_in_core(&mut self, now: Time, core: usize, busy: u32) {
        let before = std::mem::replace(&mut self.busy_in_core[core], busy);
        let [left, joined] = [before, busy].map(|busy| busy as usize);
        // Can't fail: simulated time never goes back.
        let level = self.cores_by_busy[left].level();
        let _ = self.cores_by_busy[left].set(now, level - 1);
        let level = self.cores_by_busy[joined].level();
        let _ = self.cores_by_busy[joined].set(now, level + 1);
    }

    /// Acquires a lock. `None` if the CPU has it at once; otherwise the step ends when it is granted.
    fn acquire(&mut self, now: Time, cpu: u32, lock: u32) -> Option<Next<T, E>> {
        let holder = self.setup.holder(cpu);
        self.set_doing(now, cpu, Some(Stage::Lock));
        match self.locks[lock as usize].acquire(now, holder, cpu) {
            Ok(Some(transfer)) if transfer > Span::ZERO => Some(Next::After(transfer)),
            Ok(None) => Some(Next::Waits),
            Ok(Some(_)) | Err(_) => {
                self.set_doing(now, cpu, None);
                None
            }
        }
    }

    /// Submits an invalidation. `None` if the queue has space; otherwise the CPU retries later.
    fn submit(&mut self, now: Time, cpu: u32, takes: Span) -> Option<Next<T, E>> {
        let room_after = self.commands.as_mut()?.submit(now, cpu, takes).err()?;
        self.cpus[cpu as usize].steps.push(Step::Submit(takes));
        self.set_doing(now, cpu, Some(Stage::Invalidation));
        Some(Next::After(room_after))
    }

    /// Factor by which the core's current load slows this CPU.
    fn slowness(&self, cpu: u32) -> f64 {
        let busy = self.busy_in_core[self.setup.core(cpu) as usize].max(1);
        f64::from(busy) / self.setup.core_capacity[busy as usize - 1]
    }

    /// Sets the current stage of a CPU.
    fn set_doing(&mut self, now: Time, cpu: u32, stage: Option<Stage>) {
        if let Some((stage, span)) = self.cpus[cpu as usize].set_doing(now, stage) {
            self.stages[stage as usize] += span;
        }
    }

    /// Time by stage, including the current ones.
    fn stages_until(&self, now: Time) -> [Span; 5] {
        let mut stages = self.stages;
        for (stage, span) in self.cpus.iter().filter_map(|cpu| cpu.done_until(now)) {
            stages[stage as usize] += span;
        }
        stages
    }

    /// Busy time of a CPU up to now.
    pub(crate) fn busy_until(&self, now: Time, cpu: u32) -> Span {
        self.cpus[cpu as usize].busy_until(now)
    }

    /// Time spent up to now, with the counters of a mapping.
    pub(crate) fn counts(&self, now: Time, mapping: &Mapping) -> Counts {
        Counts {
            lookups: mapping.lookups(now),
            counters: mapping.counters,
            refused: mapping.refused,
            ..self.spent(now)
        }
    }

    /// Time spent up to now, without mapping counters.
    pub(crate) fn spent(&self, now: Time) -> Counts {
        let busy = self.cpus.iter().map(|cpu| cpu.busy_until(now));
        Counts {
            at: now,
            busy: busy.fold(Span::ZERO, |sum, busy| sum + busy),
            stages: self.stages_until(now),
            locks: self.locks.iter().filter_map(|lock| lock.usage(now).ok()).collect(),
            cores_by_busy_ps: self
                .cores_by_busy
                .iter()
                .filter_map(|cores| cores.integral_ps(now).ok())
                .collect(),
            lookups: None,
            commands: self.commands.as_ref().map(|commands| commands.busy(now)),
            counters: DmaCounters::default(),
            refused: 0,
        }
    }
}
