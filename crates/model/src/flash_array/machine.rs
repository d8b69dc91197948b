//! A host, its adapters and its array, event by event.

mod command;
mod plan;
mod polls;
mod processor;
mod queues;
mod threads;
mod usage;

use super::adapter::Adapter;
use super::array::Modules;
use super::fault::Change;
use super::lock::Locks;
use super::multipath::Paths;
use super::outcome::{Outcome, Totals};
use super::path::{Cable, PathId};
use super::setup::{FlashArrayError, Setup};
use super::task::{Effect, Task};
use crate::host::{HostError, Mapping, Processors};
use crate::serial::Serial;
use crate::slab::Slab;
use command::{Command, Place};
use des::{Calendar, Heap, Model, Queue, Simulation, Span, Stream, Time, TimeAverage, Wheel};
use polls::Polls;
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
    /// A command has come to a place on its way.
    At { command: u32, place: Place },
    /// Something happens to a cable.
    Fault { fault: u32 },
    /// A path that failed is tried.
    Check { path: PathId },
    /// Measuring begins.
    Mark,
    /// It ends, and nothing new is begun.
    End,
}

pub(super) fn run(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    run_on::<Wheel<Event>>(setup)
}

pub(super) fn run_on_heap(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    run_on::<Heap<Event>>(setup)
}

fn run_on<Q: Queue<Event>>(setup: &Setup) -> Result<Outcome, FlashArrayError> {
    setup.check()?;
    let mut simulation = Simulation::<_, Q>::on(Machine::new(setup)?);
    simulation.model.begin(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    Ok(simulation.model.outcome(events))
}

#[derive(Debug)]
struct Machine<'a> {
    setup: &'a Setup,
    locks: Locks,
    processors: Processors<Task, Effect>,
    /// Of each adapter, where it has a table.
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    /// Of each CPU, where a thread polls and finds nothing.
    polls: Vec<Option<Polls>>,
    requests: Slab<Request>,
    commands: Slab<Command>,
    /// The kernel's of all adapters, and then one for each thread that has its own.
    queues: Vec<CompletionQueue>,
    paths: Paths,
    cables: Vec<Cable>,
    /// Of each adapter, to memory and from it.
    buses: Vec<[Serial; 2]>,
    modules: Modules,
    /// Interrupts that there were, which take turns with cores.
    interrupts: u64,
    /// Instructions of the partition and of its hypervisor.
    instructions: [f64; 2],
    in_flight: TimeAverage,
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
        let locks = Locks::of(setup);
        let processors = Processors::with_locks(&setup.cpus, locks.lines(setup))?;
        let threads = Thread::all(setup);
        let queues =
            setup.kernel_queues() as usize + threads.iter().filter(|thread| thread.queue.is_some()).count();
        Ok(Self {
            before: Counts::default(),
            after: Counts::default(),
            mappings: mappings(setup, locks)?,
            queues: (0..queues).map(|_| CompletionQueue::default()).collect(),
            paths: Paths::new(setup.multipath.policy, setup.paths()),
            cables: (0..setup.paths()).map(|_| Cable::default()).collect(),
            buses: (0..setup.adapters).map(|_| <[Serial; 2]>::default()).collect(),
            modules: Modules::new(&setup.array, setup.seed),
            polls: vec![None; setup.cpus.threads() as usize],
            interrupts: 0,
            instructions: [0.0; 2],
            in_flight: TimeAverage::default(),
            is_measuring: false,
            is_over: false,
            measured: Measured::new(setup.jobs.len())?,
            totals: Totals::default(),
            requests: Slab::default(),
            commands: Slab::default(),
            setup,
            locks,
            processors,
            threads,
        })
    }

    fn begin(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for thread in 0..self.threads.len() as u32 {
            let mut stream = Stream::new(self.setup.seed, u64::from(thread) + (1 << 32));
            let at = Span::from_ps(stream.below(BEGINNING.as_ps()));
            calendar.schedule_in(at, Event::Open { thread });
        }
        for (fault, known) in (0..).zip(&self.setup.faults) {
            calendar.schedule_in(known.at, Event::Fault { fault });
        }
        calendar.schedule_in(self.setup.warm_up, Event::Mark);
        calendar.schedule_in(self.setup.warm_up + self.setup.measured, Event::End);
    }

    fn adapter(&self) -> &'a Adapter {
        &self.setup.adapter
    }

    fn lead_to(&mut self, now: Time, effect: Effect, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match effect {
            Effect::Begun { request } => self.begun(now, request),
            Effect::Rung { command } => self.rung(command, calendar),
            Effect::Waits { request, cpu } => self.waits(request, cpu, calendar),
            Effect::Taken { request } => self.taken(now, request),
            // The CPU goes on looking: it is not asked for another step.
            Effect::Polls { .. } => {}
            Effect::Goes { thread } => self.goes(thread, calendar),
            Effect::Slept { thread } => self.slept(thread, calendar),
            Effect::Reaped { queue } => self.reaped(queue, calendar),
            Effect::Completed { command, cpu } => self.completed(now, command, cpu, calendar),
        }
    }

    fn fault(&mut self, now: Time, fault: u32) {
        let known = self.setup.faults[fault as usize];
        let cable = &mut self.cables[known.path.0 as usize];
        match known.change {
            Change::Pulled => cable.pull(now),
            Change::Plugged => cable.plug(),
        }
    }

    /// A path that failed is used again if it has a link; if it will never have one, nobody polls any more.
    fn check(&mut self, now: Time, path: PathId, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.cables[path.0 as usize].link().is_some() {
            for request in self.paths.recovered(now, path) {
                let cpu = self.threads[self.requests[request].thread as usize].cpu;
                self.send_again(request, cpu, calendar);
            }
            return;
        }
        let is_later = |fault: &super::Fault| Time::ZERO + fault.at >= now;
        let comes_back =
            |fault: &super::Fault| fault.path == path && fault.change == Change::Plugged && is_later(fault);
        if self.setup.faults.iter().any(comes_back) {
            calendar.schedule_in(self.setup.multipath.health_check, Event::Check { path });
        }
    }
}

/// A table for each adapter.
fn mappings(setup: &Setup, locks: Locks) -> Result<Vec<Mapping>, HostError> {
    let Some(translation) = setup.translation else { return Ok(Vec::new()) };
    let of_adapter = |adapter| {
        let mapping = Mapping::new(translation.dma_path, translation.cost, &setup.cpus)?;
        Ok(mapping.with_locks_from(locks.window(adapter)))
    };
    (0..setup.adapters).map(of_adapter).collect()
}

impl Model for Machine<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Open { thread } => self.open(thread, calendar),
            Event::Begin { cpu } => self.begin_if_idle(now, cpu, calendar),
            Event::Step { cpu } => self.run_next_step(now, cpu, calendar),
            Event::At { command, place } => self.at(now, command, place, calendar),
            Event::Fault { fault } => self.fault(now, fault),
            Event::Check { path } => self.check(now, path, calendar),
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
