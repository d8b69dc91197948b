//! The simulated machine: a host, its adapters and its array, event by event.

mod command;
mod plan;
mod polls;
mod processor;
mod queues;
mod threads;
mod usage;

use super::array::Modules;
use super::array_adapter::ArrayAdapter;
use super::fault::Change;
use super::lock::Locks;
use super::multipath::Paths;
use super::outcome::{Outcome, Totals};
use super::path::{Cable, PathId};
use super::setup::{FlashArrayError, Setup};
use super::task::{Effect, Task};
use crate::host::{HostError, Mapping, Processors};
use crate::serial_server::SerialServer;
use crate::slab::Slab;
use crate::steady::{Measurement, Progress};
use command::{Command, CommandStage};
use des::{Calendar, Heap, Model, Queue, Simulation, Span, Stream, Time, TimeAverage, Wheel};
use polls::Polls;
use queues::CompletionQueue;
use threads::{Request, Thread};
use usage::{Counts, Measured};

/// Threads start at random times within this span.
const START_SPREAD: Span = Span::from_us(100);
/// Most completions that one task processes.
const COMPLETIONS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A thread starts.
    ThreadStart { thread: u32 },
    /// An idle CPU got a task.
    CpuWakeUp { cpu: u32 },
    /// A CPU has finished a step.
    StepDone { cpu: u32 },
    /// A command reaches a stage.
    CommandStage { command: u32, stage: CommandStage },
    /// A cable is pulled or plugged in.
    Fault { fault: u32 },
    /// A failed path is checked.
    HealthCheck { path: PathId },
    /// The warm-up or a batch of the measured window ends.
    BatchEnd,
}

pub(super) fn run(setup: &Setup, measurement: Measurement) -> Result<Outcome, FlashArrayError> {
    run_on::<Wheel<Event>>(setup, measurement)
}

pub(super) fn run_on_heap(setup: &Setup, measurement: Measurement) -> Result<Outcome, FlashArrayError> {
    run_on::<Heap<Event>>(setup, measurement)
}

fn run_on<Q: Queue<Event>>(setup: &Setup, measurement: Measurement) -> Result<Outcome, FlashArrayError> {
    setup.check()?;
    let mut simulation = Simulation::<_, Q>::with_queue(FlashArrayModel::new(setup, measurement)?);
    simulation.model.schedule_initial_events(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    let window = std::mem::take(&mut simulation.model.measurement).finish()?;
    Ok(simulation.model.outcome(window, events))
}

#[derive(Debug)]
struct FlashArrayModel<'a> {
    setup: &'a Setup,
    locks: Locks,
    processors: Processors<Task, Effect>,
    /// One per adapter; empty without translation.
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    /// Per CPU: the polls of a thread that finds nothing.
    polls: Vec<Option<Polls>>,
    requests: Slab<Request>,
    commands: Slab<Command>,
    /// The kernel's queues of all adapters, then those owned by threads.
    queues: Vec<CompletionQueue>,
    paths: Paths,
    cables: Vec<Cable>,
    /// Per adapter: its bus to memory and from memory.
    buses: Vec<[SerialServer; 2]>,
    modules: Modules,
    /// Interrupts so far; they are delivered to the cores in turn.
    interrupts: u64,
    /// Instructions of the partition, and of its hypervisor.
    instructions: [f64; 2],
    in_flight: TimeAverage,
    measurement: Measurement,
    is_measuring: bool,
    is_over: bool,
    measured: Measured,
    totals: Totals,
    /// Counts at the beginning and at the end of the measured window.
    before: Counts,
    after: Counts,
}

impl<'a> FlashArrayModel<'a> {
    fn new(setup: &'a Setup, measurement: Measurement) -> Result<Self, HostError> {
        let locks = Locks::of(setup);
        let processors = Processors::new(&setup.cpus, locks.lines(setup))?;
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
            buses: (0..setup.adapters).map(|_| <[SerialServer; 2]>::default()).collect(),
            modules: Modules::new(&setup.array, setup.seed),
            polls: vec![None; setup.cpus.threads() as usize],
            interrupts: 0,
            instructions: [0.0; 2],
            in_flight: TimeAverage::default(),
            measurement,
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

    fn schedule_initial_events(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for thread in 0..self.threads.len() as u32 {
            let mut stream = Stream::new(self.setup.seed, u64::from(thread) + (1 << 32));
            let at = Span::from_ps(stream.below(START_SPREAD.as_ps()));
            calendar.schedule_in(at, Event::ThreadStart { thread });
        }
        for (fault, known) in (0..).zip(&self.setup.faults) {
            calendar.schedule_in(known.at, Event::Fault { fault });
        }
        calendar.schedule_in(self.measurement.first(), Event::BatchEnd);
    }

    /// Begins, continues or ends the measured window. After its end nothing new is submitted.
    fn end_batch(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match self.measurement.take(self.sample(), calendar.scheduled()) {
            Progress::Begins(next) => {
                self.is_measuring = true;
                self.measured.clear();
                self.before = self.counts(now);
                calendar.schedule_in(next, Event::BatchEnd);
            }
            Progress::Continues(next) => calendar.schedule_in(next, Event::BatchEnd),
            Progress::Ends => {
                (self.is_measuring, self.is_over) = (false, true);
                self.after = self.counts(now);
            }
        }
    }

    fn adapter(&self) -> &'a ArrayAdapter {
        &self.setup.adapter
    }

    fn apply_effect(&mut self, now: Time, effect: Effect, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match effect {
            Effect::RequestStarted { request } => self.start_request(now, request),
            Effect::Doorbell { command } => self.ring_doorbell(command, calendar),
            Effect::NoPath { request, cpu } => self.wait_for_path(request, cpu, calendar),
            Effect::RequestFinished { request } => self.finish_request(now, request),
            // Handled by `run_next_step`, which schedules no further step.
            Effect::PollingStarts { .. } => {}
            Effect::ThreadContinues { thread } => self.continue_thread(thread, calendar),
            Effect::ThreadSleeps { thread } => self.put_to_sleep(thread, calendar),
            Effect::QueueDrained { queue } => self.queue_drained(queue, calendar),
            Effect::CommandCompleted { command, cpu } => self.complete_command(now, command, cpu, calendar),
        }
    }

    /// Pulls or plugs a cable, or fails the path that the fault names.
    fn apply_fault(&mut self, now: Time, fault: u32) {
        let known = self.setup.faults[fault as usize];
        let cable = &mut self.cables[known.path.0 as usize];
        match known.change {
            Change::Pulled => cable.pull(now),
            Change::Plugged => cable.plug(),
        }
    }

    /// Uses a failed path again if it has a link. Otherwise schedules the next check, unless the cable is never
    /// plugged in again.
    fn check_path(&mut self, now: Time, path: PathId, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        if self.cables[path.0 as usize].link().is_some() {
            for request in self.paths.recovered(now, path) {
                let cpu = self.threads[self.requests[request].thread as usize].cpu;
                self.resubmit(request, cpu, calendar);
            }
            return;
        }
        let is_later = |fault: &super::Fault| Time::ZERO + fault.at >= now;
        let comes_back =
            |fault: &super::Fault| fault.path == path && fault.change == Change::Plugged && is_later(fault);
        if self.setup.faults.iter().any(comes_back) {
            calendar.schedule_in(self.setup.multipath.health_check, Event::HealthCheck { path });
        }
    }
}

/// Creates each adapter's mapping.
fn mappings(setup: &Setup, locks: Locks) -> Result<Vec<Mapping>, HostError> {
    let Some(translation) = setup.translation else { return Ok(Vec::new()) };
    let of_adapter = |adapter| {
        let mapping = Mapping::new(translation.dma_path, translation.cost, &setup.cpus)?;
        Ok(mapping.with_locks_from(locks.window(adapter)))
    };
    (0..setup.adapters).map(of_adapter).collect()
}

impl Model for FlashArrayModel<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::ThreadStart { thread } => self.start_thread(thread, calendar),
            Event::CpuWakeUp { cpu } => self.begin_if_idle(now, cpu, calendar),
            Event::StepDone { cpu } => self.run_next_step(now, cpu, calendar),
            Event::CommandStage { command, stage } => self.advance_command(now, command, stage, calendar),
            Event::Fault { fault } => self.apply_fault(now, fault),
            Event::HealthCheck { path } => self.check_path(now, path, calendar),
            Event::BatchEnd => self.end_batch(now, calendar),
        }
    }
}
