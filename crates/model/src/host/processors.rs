//! CPUs at work: each does the steps of its tasks, and spins where it waits for a lock.

use super::cpu::{Cpu, Level, Step};
use super::cpus::Cpus;
use super::invalidation_queue::{Commands, InvalidationQueue};
use super::mapping::Mapping;
use super::stage::Stage;
use super::usage::Counts;
use des::{Lock, Misuse, Span, Time, TimeAverage, TransferCost};
use dma::DmaCounters;

/// The CPUs of a host, and the locks that they take.
#[derive(Debug)]
pub(crate) struct Processors<T, E> {
    pub(crate) setup: Cpus,
    cpus: Vec<Cpu<T, E>>,
    /// Of what waits on them, how much is of threads.
    waiting_threads: usize,
    locks: Vec<Lock<u32>>,
    /// What they put invalidations into.
    commands: Option<Commands>,
    /// Hardware threads of each core that are busy.
    busy_in_core: Vec<u32>,
    /// Cores of which 0, 1, ... hardware threads are busy.
    cores_by_busy: Vec<TimeAverage>,
    /// Time by stage, of what is over.
    stages: [Span; 5],
}

/// What becomes of a CPU that was asked to go on.
#[derive(Debug)]
pub(crate) enum Next<T, E> {
    /// It is to be asked again when this is over.
    After(Span),
    /// It waits for a lock, or has nothing to do: another, or a new task, will have it go on.
    Waits,
    /// Another CPU has got a lock and is to be asked after this time; this one goes on.
    Granted { cpu: u32, after: Span },
    /// This happens; it goes on.
    Then(E),
    /// A task begins; it goes on when it was given the task's steps.
    Begins(T),
}

impl<T, E> Processors<T, E> {
    /// With so many locks, each on a cache line of its own.
    ///
    /// # Errors
    /// [`Misuse`]: a lock that can't be had.
    pub(crate) fn new(setup: &Cpus, locks: u32) -> Result<Self, Misuse> {
        Self::with_locks(setup, std::iter::repeat_n(1.0, locks as usize))
    }

    /// With a lock for each of these: so many cache lines go with it, its own and those of what it guards.
    ///
    /// # Errors
    /// [`Misuse`]: a lock that can't be had.
    pub(crate) fn with_locks(setup: &Cpus, lines: impl Iterator<Item = f64>) -> Result<Self, Misuse> {
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
            locks: lines.map(lock).collect::<Result<_, _>>()?,
            commands: None,
            busy_in_core: vec![0; setup.cores as usize],
            cores_by_busy,
            stages: [Span::ZERO; 5],
        })
    }

    /// With an IOMMU that takes its commands from a queue.
    pub(crate) fn with_queue(mut self, queue: Option<InvalidationQueue>) -> Self {
        self.commands = queue.map(|queue| Commands::new(queue, self.setup.threads()));
        self
    }

    /// Gives a CPU something to do: when it is to be asked, if it has nothing else to do.
    pub(crate) fn push(&mut self, cpu: u32, task: T, level: Level) -> Option<Span> {
        let known = &mut self.cpus[cpu as usize];
        known.push(task, level);
        self.waiting_threads += usize::from(level == Level::Thread);
        let delay = if level == Level::Thread { self.setup.wake } else { Span::ZERO };
        (!known.is_busy).then_some(delay)
    }

    pub(crate) fn is_busy(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].is_busy
    }

    /// Whether more waits for a CPU than what it does.
    pub(crate) fn has_next(&self, cpu: u32) -> bool {
        self.cpus[cpu as usize].has_next()
    }

    /// Has a CPU do the same over and over until it is asked to go on: how long it takes each time, with what else its core does now.
    pub(crate) fn spin(&mut self, now: Time, cpu: u32, span: Span, stage: Stage) -> Span {
        self.set_doing(now, cpu, Some(stage));
        Span::from_ps_f64(span.as_ps_f64() * self.slowness(cpu))
    }

    /// Where a thread that was on a CPU goes on once it is woken: there, unless there is more to do and another CPU is idle, of its
    /// core, its node, or any.
    pub(crate) fn place(&self, cpu: u32) -> u32 {
        if self.cpus[cpu as usize].is_idle() {
            return cpu;
        }
        let is_free = |other: &u32| self.cpus[*other as usize].is_idle();
        self.setup.near(cpu).find(is_free).unwrap_or(cpu)
    }

    /// What an idle CPU takes over of those that have more to do, of its core, its node, or any: a thread, of which the scheduler makes
    /// sure that it does not wait for interrupts of others for ever (`kernel/sched/fair.c`, `newidle_balance`).
    pub(crate) fn pull(&mut self, cpu: u32) -> Option<T> {
        if self.waiting_threads == 0 || !self.cpus[cpu as usize].is_idle() {
            return None;
        }
        let Self { setup, cpus, .. } = self;
        let task = setup.near(cpu).find_map(|other| cpus[other as usize].pop_waiting_thread())?;
        self.waiting_threads -= 1;
        Some(task)
    }

    /// An empty list for the steps of a task that begins.
    pub(crate) fn take_steps(&mut self, cpu: u32) -> Vec<Step<E>> {
        std::mem::take(&mut self.cpus[cpu as usize].steps)
    }

    /// The same with the steps in it, in their order.
    pub(crate) fn give_steps(&mut self, cpu: u32, mut steps: Vec<Step<E>>) {
        steps.reverse();
        self.cpus[cpu as usize].steps = steps;
    }

    /// Has a CPU go on to what takes time, or needs somebody else.
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

    /// Begins the next task of a CPU that has none.
    fn begin(&mut self, now: Time, cpu: u32) -> Next<T, E> {
        let core = self.setup.core(cpu) as usize;
        let known = &mut self.cpus[cpu as usize];
        let was_busy = known.is_busy;
        let popped = known.pop();
        self.waiting_threads -= usize::from(matches!(popped, Some((_, Level::Thread))));
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
        // Time never goes back.
        let level = self.cores_by_busy[left].level();
        let _ = self.cores_by_busy[left].set(now, level - 1);
        let level = self.cores_by_busy[joined].level();
        let _ = self.cores_by_busy[joined].set(now, level + 1);
    }

    /// Nothing if the CPU has the lock at once. If not, its step ends when it has.
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

    /// Nothing if there was room. If not, the CPU tries again when there is.
    fn submit(&mut self, now: Time, cpu: u32, takes: Span) -> Option<Next<T, E>> {
        let room_after = self.commands.as_mut()?.submit(now, cpu, takes).err()?;
        self.cpus[cpu as usize].steps.push(Step::Submit(takes));
        self.set_doing(now, cpu, Some(Stage::Invalidation));
        Some(Next::After(room_after))
    }

    /// How much longer anything takes on this CPU, with what else its core does now.
    fn slowness(&self, cpu: u32) -> f64 {
        let busy = self.busy_in_core[self.setup.core(cpu) as usize].max(1);
        f64::from(busy) / self.setup.core_capacity[busy as usize - 1]
    }

    /// From now on a CPU does this.
    fn set_doing(&mut self, now: Time, cpu: u32, stage: Option<Stage>) {
        if let Some((stage, span)) = self.cpus[cpu as usize].set_doing(now, stage) {
            self.stages[stage as usize] += span;
        }
    }

    /// Time by stage, with what goes on now as far as it is.
    fn stages_until(&self, now: Time) -> [Span; 5] {
        let mut stages = self.stages;
        for (stage, span) in self.cpus.iter().filter_map(|cpu| cpu.done_until(now)) {
            stages[stage as usize] += span;
        }
        stages
    }

    /// How long one of them was busy up to now.
    pub(crate) fn busy_until(&self, now: Time, cpu: u32) -> Span {
        self.cpus[cpu as usize].busy_until(now)
    }

    /// What they have spent up to now, with what mapping has done.
    pub(crate) fn counts(&self, now: Time, mapping: &Mapping) -> Counts {
        Counts {
            lookups: mapping.lookups(now),
            counters: mapping.counters,
            refused: mapping.refused,
            ..self.spent(now)
        }
    }

    /// What they have spent up to now, with none of what mapping has done.
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
