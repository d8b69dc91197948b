//! CPUs that do the same few steps over and over, and meet at locks and at words in memory.
//!
//! ```text
//!   CPU --work--> lock --hold--> work --> word --> work --+
//!    ^                                                    |
//!    +----------------------------------------------------+
//! ```
//!
//! Whoever waits spins, and takes as much of its core as whoever works: so that how fast a CPU is follows from how many of its
//! core's CPUs have a thread, and from nothing else. Threads beyond the CPUs share them without loss.

mod machine;
mod word;

pub use machine::Machine;

use des::{Calendar, Lock, Misuse, Model, Queue, Simulation, Span, Stream, Time};
use machine::Place;
use word::Word;

/// What is simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Where.
    pub machine: Machine,
    /// How many threads; beyond the machine's CPUs they share these.
    pub threads: u32,
    /// What each does over and over.
    pub steps: Vec<Step>,
    /// Which lock a CPU takes.
    pub locks: Locks,
    /// A critical section begins with so many cache lines that the last owner's core had, the lock's own first.
    pub lines: u32,
    /// Before the next owner has the lock's line, so many of the others who wait for it get it, as a share of them: with one of
    /// its words to look at for all, half of them on average; none where each waits at a line of its own.
    pub crowd_share: f64,
    /// One access to a word that CPUs change by compare-and-exchange.
    pub access: Span,
    /// Operations of each CPU.
    pub operations: u64,
    /// Work outside locks takes as long as it says on average, exponentially distributed; else to the picosecond.
    pub is_random: bool,
    /// Of all random choices.
    pub seed: u64,
}

/// Part of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Instructions that nobody else has to do with.
    Work(Span),
    /// Time that does not depend on what else the core does.
    Wait(Span),
    /// Instructions under the lock.
    Hold(Span),
    /// The word is read, and changed by compare-and-exchange, as often as it takes.
    Exchange,
    /// The word is changed whatever it was.
    Write,
}

/// How many locks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// One.
    One,
    /// As many as powerpc has pools, and CPUs take that of their pool.
    Pools,
    /// One for each CPU.
    Cpus,
}

/// What came out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Operations that were begun, and those finished.
    pub begun: u64,
    /// See there.
    pub finished: u64,
    /// CPUs that had a thread.
    pub cpus: u32,
    /// In a second, by all of them, but for the first tenth and the last.
    pub per_second: f64,
    /// From an operation's beginning to its end.
    pub latency_mean: Span,
    /// When all was done.
    pub end: Time,
    /// Compare-and-exchanges for each that succeeded.
    pub attempts: f64,
    /// Of the CPUs' time, how much they waited for locks.
    pub waiting_share: f64,
}

impl Outcome {
    /// How long so many operations take.
    pub fn seconds(&self, operations: f64) -> f64 {
        operations / self.per_second
    }
}

/// Lets all CPUs do what they have to do.
///
/// # Errors
/// Never with locks that are released by those who took them.
pub fn run(setup: &Setup) -> Result<Outcome, Misuse> {
    let mut simulation = Simulation::new(Crowd::new(setup.clone())?);
    for cpu in 0..simulation.model.cpus.len() as u32 {
        simulation.calendar.schedule_in(Span::ZERO, Event::Next(cpu));
    }
    simulation.run();
    simulation.model.outcome(simulation.now())
}

/// What happens to a CPU.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It goes on with its next step.
    Next(u32),
    /// Its critical section is over.
    Release(u32),
    /// It has had the word.
    Accessed(u32),
}

#[derive(Debug)]
struct Cpu {
    place: Place,
    lock: usize,
    /// Instructions take so many times as long as alone on the core.
    slowdown: f64,
    stream: Stream,
    step: usize,
    left: u64,
    began: Time,
    /// Of the word, where it is at work on it.
    errand: word::Errand,
}

#[derive(Debug)]
struct Crowd {
    setup: Setup,
    cpus: Vec<Cpu>,
    locks: Vec<Lock<u32>>,
    word: Word,
    begun: u64,
    finished: u64,
    latency_sum: u128,
    /// When the first tenth was finished, and when all but the last were.
    from: Time,
    to: Time,
    misuse: Option<Misuse>,
}

impl Crowd {
    fn new(setup: Setup) -> Result<Self, Misuse> {
        let machine = &setup.machine;
        let places = machine.places(setup.threads);
        let pools = match setup.locks {
            Locks::Pools => machine::pools(&places),
            Locks::One => vec![0; places.len()],
            Locks::Cpus => (0..places.len()).collect(),
        };
        let cost = |_| Lock::new(machine.transfer);
        let locks = (0..=pools.iter().copied().max().unwrap_or(0)).map(cost).collect::<Result<_, _>>()?;
        let cpu = |(place, lock): (Place, usize)| Cpu {
            place,
            lock,
            slowdown: machine.slowdown(place.of_core),
            stream: Stream::new(setup.seed, u64::from(place.number)),
            step: 0,
            left: setup.operations,
            began: Time::ZERO,
            errand: word::Errand::default(),
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

    fn all(&self) -> u64 {
        self.cpus.len() as u64 * self.setup.operations
    }

    /// Operations after which time is taken.
    fn first(&self) -> u64 {
        self.all() / 10
    }

    fn last(&self) -> u64 {
        self.all() - self.all() / 10
    }

    /// A CPU's next step, or the next operation's first.
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
            Step::Exchange => self.access(index, word::Errand::Look, calendar),
            Step::Write => self.access(index, word::Errand::Write, calendar),
        }
    }

    /// Who was given a lock is in its critical section from when the lines have come.
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

    fn release(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let lock = &mut self.locks[self.cpus[index as usize].lock];
        let others = lock.waiting().saturating_sub(1);
        let next = lock.release(now);
        self.granted(next.map(|next| next.map(|grant| (grant.who, grant.transfer, others))), calendar);
        self.next(now, index, calendar);
    }

    fn access(
        &mut self,
        index: u32,
        errand: word::Errand,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.cpus[index as usize].errand = errand;
        if let Some((next, access)) = self.word.request(index) {
            calendar.schedule_in(access, Event::Accessed(next));
        }
    }

    fn accessed(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let again = self.word.accessed(self.cpus[index as usize].errand);
        match again {
            Some(errand) => self.access(index, errand, calendar),
            None => self.next(now, index, calendar),
        }
        if let Some((next, access)) = self.word.turn() {
            calendar.schedule_in(access, Event::Accessed(next));
        }
    }

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

impl Model for Crowd {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Next(cpu) => self.next(now, cpu, calendar),
            Event::Release(cpu) => self.release(now, cpu, calendar),
            Event::Accessed(cpu) => self.accessed(now, cpu, calendar),
        }
    }
}

fn times(span: Span, factor: f64) -> Span {
    Span::from_ps_f64(span.as_ps_f64() * factor)
}

#[cfg(test)]
mod tests;
