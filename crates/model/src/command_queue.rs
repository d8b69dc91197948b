//! The command queue of an SMMUv3 as Linux fills it without a lock, and what its shared words cost CPUs that use it at once.
//!
//! ```text
//!   claim a place     ends: compare-and-exchange until it succeeds; who finds the queue unowned becomes the owner
//!   write commands    (each CPU's own entries)
//!   lock, shared      lock: one addition
//!   mark them valid   valid: one exclusive-or
//!   owner only        lock: reads until the previous owner is done; ends: clears the mark, which ends the gathering;
//!                     valid: reads until all gathered commands are valid; the doorbell; lock: passes ownership on
//!   wait for CMD_SYNC (each CPU's own entry)
//!   unlock            lock: one read, one subtraction; the last one out writes the queue's end to ends before
//! ```
//!
//! These are the accesses of `arm_smmu_cmdq_issue_cmdlist` for one command and its CMD_SYNC (Linux 5.4 to 5.8, completion by a
//! message in memory). `prod` and `cons` are one 64-bit word on a line of its own. `owner_prod` and the lock's counter are
//! neighbours on another line. The bits of commands in flight are on a third.
//!
//! Each access by another CPU than the last moves the line, which takes the same time for all lines and CPUs. A CPU that polls a
//! word reads it again whenever the word has changed.

use crate::contention::word::{Word, WordAccess};
use des::{Calendar, Model, Queue, Simulation, Span, Stream, Time};

/// Parameters of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// CPUs that use the queue.
    pub cpus: u32,
    /// Time of an operation outside of the shared words, on average; it is distributed exponentially.
    pub work: Span,
    /// Time of an access to a line that another CPU had last.
    pub access: Span,
    /// From the doorbell until a CPU sees that its commands are done.
    pub sync: Span,
    /// How a place is claimed.
    pub claim: Claim,
    /// Operations per CPU.
    pub operations: u64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// How a CPU claims a place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// By compare-and-exchange of both ends at once, as Linux does.
    Exchange,
    /// By an addition, as J. Garry proposed in 2020: `cons` is on another line, and the owner locks for all whom it gathered.
    Addition,
}

/// Results of a simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Operations finished.
    pub finished: u64,
    /// Operations per second of all CPUs, without the first and the last tenth.
    pub per_second: f64,
    /// Attempts per successful compare-and-exchange.
    pub attempts: f64,
    /// Commands that an owner publishes at once, on average.
    pub gathered_mean: f64,
    /// Unlocks that found nobody else, as a share of all.
    pub last_share: f64,
}

/// Runs the simulation.
pub fn run(setup: &Setup) -> Outcome {
    let mut simulation = Simulation::new(CommandQueue::new(*setup));
    for cpu in 0..setup.cpus {
        simulation.calendar.schedule_in(Span::ZERO, Event::Next(cpu));
    }
    simulation.run();
    simulation.model.outcome()
}

/// Events of a CPU.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It continues with its next step.
    Next(u32),
    /// Its access to a word ends.
    Accessed(Line, u32),
}

/// The shared lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// `prod` and `cons`, or `prod` and the count of gathered commands.
    Ends,
    /// The lock's counter and `owner_prod`.
    Lock,
    /// Which commands are valid.
    Valid,
    /// `cons`, where it is on a line of its own.
    Consumed,
}

/// What a CPU does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Work,
    Claim,
    /// Whether there is space, where that is read after the claim.
    ReadSpace,
    Lock,
    MarkValid,
    /// The owner's: waits for the previous owner.
    AwaitOwner,
    StopGathering,
    AwaitValid,
    LockForAll,
    PassOwnership,
    AwaitSync,
    ReadLock,
    WriteConsumed,
    Unlock,
}

#[derive(Debug)]
struct Cpu {
    stream: Stream,
    left: u64,
    step: Step,
    access_kind: WordAccess,
    /// The number of its command, in the order of claims.
    command: usize,
    is_owner: bool,
    /// Of an owner: the first command that it did not gather.
    gathered_to: usize,
}

#[derive(Debug)]
struct CommandQueue {
    setup: Setup,
    cpus: Vec<Cpu>,
    words: [Word; 4],
    /// CPUs that poll a line and have seen its present value.
    polling: [Vec<u32>; 4],
    /// The CPU of each command, and whether the command is valid.
    commands: Vec<(u32, bool)>,
    is_owned: bool,
    /// Commands whose owners are done.
    owner_done: usize,
    /// Commands that the SMMU will have executed at this time, by number.
    done_at: Vec<Option<Time>>,
    locked: u64,
    finished: u64,
    owners: u64,
    last_unlocks: u64,
    from: Time,
    to: Time,
}

impl CommandQueue {
    fn new(setup: Setup) -> Self {
        let cpu = |number| Cpu {
            stream: Stream::new(setup.seed, u64::from(number)),
            left: setup.operations,
            step: Step::Work,
            access_kind: WordAccess::default(),
            command: 0,
            is_owner: false,
            gathered_to: 0,
        };
        Self {
            setup,
            cpus: (0..setup.cpus).map(cpu).collect(),
            words: [0, 1, 2, 3].map(|number| Word::cached(setup.access, setup.seed, number)),
            polling: Default::default(),
            commands: Vec::new(),
            is_owned: false,
            owner_done: 0,
            done_at: Vec::new(),
            locked: 0,
            finished: 0,
            owners: 0,
            last_unlocks: 0,
            from: Time::ZERO,
            to: Time::ZERO,
        }
    }

    fn outcome(&self) -> Outcome {
        let between = self.to.since(self.from).unwrap_or_default().as_ps_f64();
        let measured = self.last() - self.first();
        Outcome {
            finished: self.finished,
            per_second: measured as f64 * 1e12 / between,
            attempts: self.words[Line::Ends as usize].attempts_mean(),
            gathered_mean: self.commands.len() as f64 / self.owners.max(1) as f64,
            last_share: self.last_unlocks as f64 / self.finished.max(1) as f64,
        }
    }

    /// Operations before measuring starts.
    fn first(&self) -> u64 {
        self.cpus.len() as u64 * self.setup.operations / 10
    }

    /// The operation at which measuring ends.
    fn last(&self) -> u64 {
        self.cpus.len() as u64 * self.setup.operations - self.first()
    }

    /// Starts a CPU's step: work, a wait, or an access to a word.
    fn start(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let cpu = &mut self.cpus[index as usize];
        let (line, access_kind) = match cpu.step {
            Step::Work => {
                if cpu.left > 0 {
                    cpu.left -= 1;
                    cpu.step = Step::Claim;
                    let work = cpu.stream.exponential(self.setup.work);
                    calendar.schedule_in(work, Event::Next(index));
                }
                return;
            }
            Step::AwaitSync => {
                let done = self.done_at.get(cpu.command).copied().flatten();
                // Without a time, the owner has not published the command yet, and will continue this CPU.
                if let Some(done) = done {
                    cpu.step = Step::ReadLock;
                    calendar.schedule_in(done.since(now).unwrap_or_default(), Event::Next(index));
                }
                return;
            }
            Step::Claim => match self.setup.claim {
                Claim::Exchange => (Line::Ends, WordAccess::Claim),
                Claim::Addition => (Line::Ends, WordAccess::Write),
            },
            Step::ReadSpace => (Line::Consumed, WordAccess::Read),
            Step::MarkValid => (Line::Valid, WordAccess::Write),
            Step::AwaitValid => (Line::Valid, WordAccess::Read),
            Step::StopGathering => (Line::Ends, WordAccess::Write),
            Step::AwaitOwner | Step::ReadLock => (Line::Lock, WordAccess::Read),
            Step::Lock | Step::LockForAll | Step::PassOwnership | Step::Unlock => {
                (Line::Lock, WordAccess::Write)
            }
            Step::WriteConsumed => match self.setup.claim {
                Claim::Exchange => (Line::Ends, WordAccess::Write),
                Claim::Addition => (Line::Consumed, WordAccess::Write),
            },
        };
        self.access(line, index, access_kind, calendar);
    }

    /// Requests a line for a CPU.
    fn access(
        &mut self,
        line: Line,
        index: u32,
        access_kind: WordAccess,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.cpus[index as usize].access_kind = access_kind;
        if let Some((next, access)) = self.words[line as usize].request(index) {
            calendar.schedule_in(access, Event::Accessed(line, next));
        }
    }

    /// A CPU has accessed a line: it retries, polls on or goes on, and the next CPU gets the line.
    fn accessed(
        &mut self,
        now: Time,
        line: Line,
        index: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let access_kind = self.cpus[index as usize].access_kind;
        match self.words[line as usize].accessed(access_kind) {
            Some(retry) => self.access(line, index, retry, calendar),
            None if self.must_poll(index) => self.polling[line as usize].push(index),
            None => {
                self.finish_step(now, index, calendar);
                self.start(now, index, calendar);
                if access_kind != WordAccess::Read {
                    self.wake_polling(line, calendar);
                }
            }
        }
        if let Some((next, access)) = self.words[line as usize].turn() {
            calendar.schedule_in(access, Event::Accessed(line, next));
        }
    }

    /// Whether what a CPU polls for has not happened yet.
    fn must_poll(&self, index: u32) -> bool {
        let cpu = &self.cpus[index as usize];
        match cpu.step {
            Step::AwaitOwner => self.owner_done != cpu.command,
            Step::AwaitValid => {
                let gathered = &self.commands[cpu.command..cpu.gathered_to];
                gathered.iter().any(|(_, is_valid)| !is_valid)
            }
            _ => false,
        }
    }

    /// A line has changed: who polls it reads it again.
    fn wake_polling(&mut self, line: Line, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for index in std::mem::take(&mut self.polling[line as usize]) {
            self.access(line, index, WordAccess::Read, calendar);
        }
    }

    /// Applies the effect of a CPU's access, and sets its next step.
    fn finish_step(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let is_exchange = self.setup.claim == Claim::Exchange;
        let step = self.cpus[index as usize].step;
        let next = match step {
            Step::Work | Step::AwaitSync => step,
            Step::Claim => {
                self.claim(index);
                if is_exchange { Step::Lock } else { Step::ReadSpace }
            }
            Step::ReadSpace => Step::MarkValid,
            Step::Lock => {
                self.locked += 1;
                Step::MarkValid
            }
            Step::MarkValid => {
                let cpu = &self.cpus[index as usize];
                self.commands[cpu.command].1 = true;
                if cpu.is_owner { Step::AwaitOwner } else { Step::AwaitSync }
            }
            Step::AwaitOwner => Step::StopGathering,
            Step::StopGathering => {
                self.is_owned = false;
                self.cpus[index as usize].gathered_to = self.commands.len();
                Step::AwaitValid
            }
            Step::AwaitValid if is_exchange => self.publish(now, index, calendar),
            Step::AwaitValid => Step::LockForAll,
            Step::LockForAll => {
                let cpu = &self.cpus[index as usize];
                self.locked += (cpu.gathered_to - cpu.command) as u64;
                self.publish(now, index, calendar)
            }
            Step::PassOwnership => {
                self.owner_done = self.cpus[index as usize].gathered_to;
                Step::AwaitSync
            }
            Step::ReadLock if self.locked == 1 => Step::WriteConsumed,
            Step::ReadLock => Step::Unlock,
            Step::WriteConsumed => {
                self.last_unlocks += 1;
                Step::Unlock
            }
            Step::Unlock => {
                self.locked -= 1;
                self.finish(now);
                Step::Work
            }
        };
        self.cpus[index as usize].step = next;
    }

    /// Gives a CPU the next place. It owns the queue's end if nobody does.
    fn claim(&mut self, index: u32) {
        let cpu = &mut self.cpus[index as usize];
        (cpu.command, cpu.is_owner) = (self.commands.len(), !self.is_owned);
        self.owners += u64::from(cpu.is_owner);
        self.is_owned = true;
        self.commands.push((index, false));
        self.done_at.push(None);
    }

    /// Rings the doorbell for all commands that an owner gathered, and continues the CPUs that wait for it.
    fn publish(&mut self, now: Time, index: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) -> Step {
        let cpu = &self.cpus[index as usize];
        let done = Some(now + self.setup.sync);
        for command in cpu.command..cpu.gathered_to {
            self.done_at[command] = done;
            let (other, _) = self.commands[command];
            if other != index && self.cpus[other as usize].step == Step::AwaitSync {
                calendar.schedule_in(Span::ZERO, Event::Next(other));
            }
        }
        Step::PassOwnership
    }

    /// Counts an operation that is done.
    fn finish(&mut self, now: Time) {
        self.finished += 1;
        if self.finished == self.first() {
            self.from = now;
        }
        if self.finished == self.last() {
            self.to = now;
        }
    }
}

impl Model for CommandQueue {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Next(cpu) => self.start(now, cpu, calendar),
            Event::Accessed(line, cpu) => self.accessed(now, line, cpu, calendar),
        }
    }
}

#[cfg(test)]
mod tests;
