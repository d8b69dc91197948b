//! Contention: CPUs that repeat a few steps and share locks, or words in memory.
//!
//! ```text
//!   CPU --work--> lock --hold--> work --> word --> work --+
//!    ^                                                    |
//!    +----------------------------------------------------+
//! ```
//!
//! A CPU that waits spins, and slows its core's other threads as much as one that works. So a CPU's speed depends
//! only on how many CPUs of its core have a thread. Threads beyond the number of CPUs share these without loss.

mod cpu_topology;
pub(crate) mod word;

pub use cpu_topology::CpuTopology;

use cpu_topology::CpuPlacement;
use des::{Calendar, Lock, Misuse, Model, Queue, Simulation, Span, Stream, Time};
use word::Word;

/// Parameters of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The machine.
    pub machine: CpuTopology,
    /// Number of threads. More than CPUs share these.
    pub threads: u32,
    /// Steps that each thread repeats.
    pub steps: Vec<Step>,
    /// Assignment of locks to CPUs.
    pub locks: Locks,
    /// Cache lines of a critical section that the last owner's core has, including the lock's own.
    pub lines: u32,
    /// Share of the other waiting CPUs that get the lock's line before the next owner does. 0.5 on average if all
    /// spin on one word (ticket lock); 0 if each spins on its own line (queued lock).
    pub crowd_share: f64,
    /// Duration of one access to the shared word.
    pub access: Span,
    /// Operations per CPU.
    pub operations: u64,
    /// Whether work outside locks is exponentially distributed with the given mean, instead of constant.
    pub is_random: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

/// A step of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Instructions outside locks.
    Work(Span),
    /// A wait that does not depend on the core's load.
    Wait(Span),
    /// Instructions while the lock is held.
    Hold(Span),
    /// Read the word, and repeat compare-and-exchange until it succeeds.
    Exchange,
}

/// Assignment of locks to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// One lock for all.
    One,
    /// One lock per allocator pool of powerpc.
    Pools,
    /// One lock per CPU.
    Cpus,
}

/// Results of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Operations started.
    pub begun: u64,
    /// Operations finished.
    pub finished: u64,
    /// CPUs with a thread.
    pub cpus: u32,
    /// Operations per second of all CPUs, without the first and the last tenth.
    pub per_second: f64,
    /// Mean duration of an operation.
    pub latency_mean: Span,
    /// End of the last operation.
    pub end: Time,
    /// Attempts per successful compare-and-exchange.
    pub attempts: f64,
    /// Share of CPU time spent waiting for locks.
    pub waiting_share: f64,
}

impl Outcome {
    /// Time that `operations` operations take, in seconds.
    pub fn seconds(&self, operations: f64) -> f64 {
        operations / self.per_second
    }
}

/// Runs the simulation.
///
/// # Errors
/// Only if a lock is released by a CPU that does not hold it.
pub fn run(setup: &Setup) -> Result<Outcome, Misuse> {
    let mut simulation = Simulation::new(ContentionModel::new(setup.clone())?);
    for cpu in 0..simulation.model.cpus.len() as u32 {
        simulation.calendar.schedule_in(Span::ZERO, Event::Next(cpu));
    }
    simulation.run();
    simulation.model.outcome(simulation.now())
}

/// Events of a CPU.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It starts its next step.
    Next(u32),
    /// Its critical section ends.
    Release(u32),
    /// Its access to the word ends.
    Accessed(u32),
}

#[derive(Debug)]
struct Cpu {
    place: CpuPlacement,
    lock: usize,
    /// Factor by which the core's load slows instructions.
    slowdown: f64,
    stream: Stream,
    step: usize,
    left: u64,
    began: Time,
    /// Its current access to the word.
    access_kind: word::WordAccess,
}

#[derive(Debug)]
struct ContentionModel {
    setup: Setup,
    cpus: Vec<Cpu>,
    locks: Vec<Lock<u32>>,
    word: Word,
    begun: u64,
    finished: u64,
    latency_sum: u128,
    /// When the first tenth, and nine tenths, of the operations were finished.
    from: Time,
    to: Time,
    misuse: Option<Misuse>,
}

impl ContentionModel {
    fn new(setup: Setup) -> Result<Self, Misuse> {
        let machine = &setup.machine;
        let places = machine.place_threads(setup.threads);
        let pools = match setup.locks {
            Locks::Pools => cpu_topology::pools(&places),
            Locks::One => vec![0; places.len()],
            Locks::Cpus => (0..places.len()).collect(),
        };
        let cost = |_| Lock::new(machine.transfer);
        let locks = (0..=pools.iter().copied().max().unwrap_or(0)).map(cost).collect::<Result<_, _>>()?;
        let cpu = |(place, lock): (CpuPlacement, usize)| Cpu {
            place,
            lock,
            slowdown: machine.slowdown(place.of_core),
            stream: Stream::new(setup.seed, u64::from(place.number)),
            step: 0,
            left: setup.operations,
            began: Time::ZERO,
            access_kind: word::WordAccess::default(),
        };
        let cpus = places.into_iter().zip(pools).map(cpu).collect();
        let word = Word::new(setup.access, setup.seed);
        let (begun, finished, latency_sum) = (0, 0, 0);
        let (from, to) = (Time::ZERO, Time::ZERO);
        Ok(Self { setup, cpus, locks, word, begun, finished, latency_sum, from, to, misuse: None })
    }

    fn outcome(&self, now: Time) -> Result<Outcome, Misuse> {
        if let Some(misuse) = self.misuse {
            return Err(misuse);
        }
        let between = self.to.since(self.from).unwrap_or_default().as_ps_f64();
        let waited = |lock: &Lock<u32>| Ok(lock.usage(now)?.waited_ps as f64);
        let waited: f64 = self.locks.iter().map(waited).sum::<Result<f64, Misuse>>()?;
        let all = self.cpus.len() as f64 * now.since(Time::ZERO).unwrap_or_default().as_ps_f64();
        Ok(Outcome {
            begun: self.begun,
            finished: self.finished,
            cpus: self.cpus.len() as u32,
            per_second: (self.last() - self.first()) as f64 * 1e12 / between,
            latency_mean: Span::from_ps_f64(self.latency_sum as f64 / self.finished.max(1) as f64),
            end: now,
            attempts: self.word.attempts_mean(),
            waiting_share: waited / all,
        })
    }

    /// Operations of all CPUs.
    fn operations(&self) -> u64 {
        self.cpus.len() as u64 * self.setup.operations
    }

    /// Number of operations before measuring starts.
    fn first(&self) -> u64 {
        self.operations() / 10
    }

    /// Number of the operation at which measuring ends.
    fn last(&self) -> u64 {
        self.operations() - self.operations() / 10
    }

    /// Starts a CPU's next step, or its next operation.
    fn next(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = &mut self.cpus[index as usize];
        if cpu.step == 0 {
            if cpu.left == 0 {
                return;
            }
            (cpu.left, cpu.began) = (cpu.left - 1, now);
            self.begun += 1;
        }
        let Some(&step) = self.setup.steps.get(cpu.step) else {
            cpu.step = 0;
            self.finish(now, index);
            return self.next(now, index, calendar);
        };
        cpu.step += 1;
        let mut spend = |span: Span, slowdown: f64| {
            let span = if self.setup.is_random { cpu.stream.exponential(span) } else { span };
            calendar.schedule_in(times(span, slowdown), Event::Next(index));
        };
        match step {
            Step::Work(span) => spend(span, cpu.slowdown),
            Step::Wait(span) => spend(span, 1.0),
            Step::Hold(_) => {
                let granted = self.locks[cpu.lock].acquire(now, cpu.place.cpu(), index);
                self.granted(granted.map(|transfer| transfer.map(|transfer| (index, transfer, 0))), calendar);
            }
            Step::Exchange => self.access(index, word::WordAccess::Claim, calendar),
        }
    }

    /// A CPU was granted a lock: its critical section starts once the cache lines have arrived.
    fn granted(
        &mut self,
        granted: Result<Option<(u32, Span, u64)>, Misuse>,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match granted {
            Ok(Some((index, transfer, others))) => {
                let cpu = &self.cpus[index as usize];
                let crowd = others as f64 * self.setup.crowd_share;
                let lines = times(transfer, f64::from(self.setup.lines) + crowd);
                let hold = match self.setup.steps.get(cpu.step - 1) {
                    Some(Step::Hold(span)) => times(*span, cpu.slowdown),
                    _ => Span::ZERO,
                };
                calendar.schedule_in(lines + hold, Event::Release(index));
            }
            Ok(None) => {}
            Err(misuse) => self.misuse = Some(misuse),
        }
    }

    /// A CPU releases its lock, and the next one that waits gets it.
    fn release(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let lock = &mut self.locks[self.cpus[index as usize].lock];
        let others = lock.waiting().saturating_sub(1);
        let next = lock.release(now);
        self.granted(next.map(|next| next.map(|grant| (grant.who, grant.transfer, others))), calendar);
        self.next(now, index, calendar);
    }

    /// Requests the shared word for a CPU.
    fn access(
        &mut self,
        index: u32,
        access_kind: word::WordAccess,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.cpus[index as usize].access_kind = access_kind;
        if let Some((next, access)) = self.word.request(index) {
            calendar.schedule_in(access, Event::Accessed(next));
        }
    }

    /// A CPU has accessed the shared word: it retries or goes on, and the next CPU gets the word.
    fn accessed(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let again = self.word.accessed(self.cpus[index as usize].access_kind);
        match again {
            Some(access_kind) => self.access(index, access_kind, calendar),
            None => self.next(now, index, calendar),
        }
        if let Some((next, access)) = self.word.turn() {
            calendar.schedule_in(access, Event::Accessed(next));
        }
    }

    /// Counts an operation that is done, and its latency.
    fn finish(&mut self, now: Time, index: u32) {
        let took = now.since(self.cpus[index as usize].began).unwrap_or_default();
        self.latency_sum += u128::from(took.as_ps());
        self.finished += 1;
        if self.finished == self.first() {
            self.from = now;
        }
        if self.finished == self.last() {
            self.to = now;
        }
    }
}

impl Model for ContentionModel {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Next(cpu) => self.next(now, cpu, calendar),
            Event::Release(cpu) => self.release(now, cpu, calendar),
            Event::Accessed(cpu) => self.accessed(now, cpu, calendar),
        }
    }
}

/// A multiple of a duration.
fn times(span: Span, factor: f64) -> Span {
    Span::from_ps_f64(span.as_ps_f64() * factor)
}

#[cfg(test)]
mod tests;
