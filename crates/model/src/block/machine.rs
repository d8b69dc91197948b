//! A host and its disk, event by event.

mod command;
mod plan;
mod processor;
mod queues;
mod threads;
mod usage;

use super::Setup;
use super::adapter::Adapter;
use super::media::{Dies, For};
use super::outcome::{Outcome, Totals};
use super::task::{Effect, Task};
use crate::host::{HostError, Mapping, Processors};
use crate::serial::Serial;
use crate::slab::Slab;
use command::{Command, What};
use des::{Calendar, Heap, Model, Queue, Simulation, Span, Stream, Time, TimeAverage, Wheel};
use queues::CompletionQueue;
use threads::{Request, Thread};
use usage::{Counts, Measured};

/// Threads begin within this time.
const BEGINNING: Span = Span::from_us(100);
/// Completions that a task takes at most.
const COMPLETIONS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A thread begins.
    Open { thread: u32 },
    /// A CPU may have something to do.
    Begin { cpu: u32 },
    /// A CPU's step is over.
    Step { cpu: u32 },
    /// The adapter is told of a command.
    Told { command: u32 },
    /// What it asked memory for is about to come.
    Answered { command: u32, what: What },
    /// It is there.
    Fetched { command: u32, what: What },
    /// The adapter begins with the data.
    Served { command: u32 },
    /// A die has read a piece, and its channel is needed.
    Sensed { command: u32, die: u32, bytes: u32 },
    /// It is in the adapter.
    Read { command: u32 },
    /// A piece is at its die.
    Carried { to: For, die: u32 },
    /// It is programmed.
    Programmed { to: For },
    /// A completion is in memory.
    Posted { command: u32 },
    /// Completions were held back for long enough.
    Due { queue: u32, timer: u32 },
    /// An interrupt is at its CPU.
    Interrupt { queue: u32 },
    /// Measuring begins.
    Mark,
    /// It ends, and nothing new is begun.
    End,
}

pub(super) fn run(setup: &Setup) -> Result<Outcome, HostError> {
    run_on::<Wheel<Event>>(setup)
}

pub(super) fn run_on_heap(setup: &Setup) -> Result<Outcome, HostError> {
    run_on::<Heap<Event>>(setup)
}

fn run_on<Q: Queue<Event>>(setup: &Setup) -> Result<Outcome, HostError> {
    let mut simulation = Simulation::<_, Q>::on(Machine::new(setup)?);
    simulation.model.begin(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    Ok(simulation.model.outcome(events))
}

#[derive(Debug)]
struct Machine<'a> {
    setup: &'a Setup,
    processors: Processors<Task, Effect>,
    mapping: Mapping,
    threads: Vec<Thread>,
    requests: Slab<Request>,
    commands: Slab<Command>,
    queues: Vec<CompletionQueue>,
    /// The link towards memory, and from it.
    up: Serial,
    down: Serial,
    dies: Dies,
    interrupts: u64,
    /// Reads and writes that are in flight, and commands in queues.
    in_flight: TimeAverage,
    in_queues: TimeAverage,
    is_measuring: bool,
    is_over: bool,
    measured: Measured,
    totals: Totals,
    /// What was spent before measuring began, and when it ended.
    before: Counts,
    after: Counts,
}

impl<'a> Machine<'a> {
    fn new(setup: &'a Setup) -> Result<Self, HostError> {
        let host = &setup.host;
        let queues = host.adapter.queues_of(host.cpus.threads());
        let mapping = Mapping::new(host.dma_path, host.mapping, &host.cpus)?;
        let processors = Processors::new(&host.cpus, host.dma_path.locks() + queues)?;
        let before = Counts::beginning(processors.counts(Time::ZERO, &mapping), host.cpus.threads());
        Ok(Self {
            setup,
            processors,
            threads: Thread::all(setup),
            requests: Slab::default(),
            commands: Slab::default(),
            queues: (0..queues).map(|_| CompletionQueue::default()).collect(),
            up: Serial::default(),
            down: Serial::default(),
            dies: Dies::new(&host.media, setup.seed),
            interrupts: 0,
            in_flight: TimeAverage::default(),
            in_queues: TimeAverage::default(),
            is_measuring: false,
            is_over: false,
            measured: Measured::new(setup.jobs.len())?,
            totals: Totals::default(),
            after: before.clone(),
            before,
            mapping,
        })
    }

    fn begin(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for thread in 0..self.threads.len() as u32 {
            let mut stream = Stream::new(self.setup.seed, u64::from(thread) + (1 << 32));
            let at = Span::from_ps(stream.below(BEGINNING.as_ps()));
            calendar.schedule_in(at, Event::Open { thread });
        }
        calendar.schedule_in(self.setup.warm_up, Event::Mark);
        calendar.schedule_in(self.setup.warm_up + self.setup.measured, Event::End);
    }

    fn adapter(&self) -> &'a Adapter {
        &self.setup.host.adapter
    }

    fn lead_to(&mut self, now: Time, effect: Effect, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match effect {
            Effect::Taken { request } => self.taken(now, request),
            Effect::Begun { request } => self.begun(now, request),
            Effect::Rung { command } => self.rung(now, command, calendar),
            Effect::Asked { thread } => self.asked(thread, calendar),
            Effect::Slept { thread } => self.slept(thread, calendar),
            Effect::Completed { command } => self.completed(now, command, calendar),
            Effect::Reaped { queue } => self.reaped(now, queue, calendar),
        }
    }
}

impl Model for Machine<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Open { thread } => self.wake(thread, false, calendar),
            Event::Begin { cpu } => self.begin_if_idle(now, cpu, calendar),
            Event::Step { cpu } => self.run_next_step(now, cpu, calendar),
            Event::Told { command } => self.fetch(now, command, What::Command, calendar),
            Event::Answered { command, what } => self.answered(now, command, what, calendar),
            Event::Fetched { command, what } => self.fetched(now, command, what, calendar),
            Event::Served { command } => self.served(now, command, calendar),
            Event::Sensed { command, die, bytes } => self.sensed(now, command, die, bytes, calendar),
            Event::Read { command } => self.read(now, command, calendar),
            Event::Carried { to, die } => self.carried(now, to, die, calendar),
            Event::Programmed { to } => self.programmed(now, to, calendar),
            Event::Posted { command } => self.posted(now, command, calendar),
            Event::Due { queue, timer } => self.due(now, queue, timer, calendar),
            Event::Interrupt { queue } => self.interrupt(queue, calendar),
            Event::Mark => {
                self.is_measuring = true;
                self.before = self.counts(now);
            }
            Event::End => {
                (self.is_measuring, self.is_over) = (false, true);
                self.after = self.counts(now);
            }
        }
    }
}
