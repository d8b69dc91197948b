//! The simulated machine: a host and its NVMe adapter, event by event.

mod command;
mod plan;
mod processor;
mod queues;
mod threads;
mod usage;

use super::media::{Dies, ProgramTarget};
use super::nvme_adapter::NvmeAdapter;
use super::outcome::{Outcome, Totals};
use super::task::{Effect, Task};
use super::{BlockError, Setup};
use crate::host::{HostError, Mapping, Processors};
use crate::serial_server::SerialServer;
use crate::slab::Slab;
use crate::steady::{Measurement, Progress};
use command::{Command, Fetch};
use des::{Calendar, Heap, Model, Queue, Simulation, Span, Stream, Time, TimeAverage, Wheel};
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
    /// The doorbell write for a command reaches the adapter.
    Doorbell { command: u32 },
    /// Memory answers a read of the adapter.
    MemoryAnswers { command: u32, fetch: Fetch },
    /// The answer has crossed the link.
    Fetched { command: u32, fetch: Fetch },
    /// The adapter starts with the data.
    MediaStart { command: u32 },
    /// A die has read a page; next it crosses the channel.
    PageSensed { command: u32, die: u32, bytes: u32 },
    /// A page is in the adapter.
    PageRead { command: u32 },
    /// A page has crossed the channel to its die.
    PageAtDie { to: ProgramTarget, die: u32 },
    /// A die has programmed a page.
    PageProgrammed { to: ProgramTarget },
    /// A completion is in memory.
    CompletionPosted { command: u32 },
    /// The coalescing timer of a queue expires.
    CoalescingTimer { queue: u32, timer: u32 },
    /// An interrupt reaches its CPU.
    Interrupt { queue: u32 },
    /// The warm-up or a batch of the measured window ends.
    BatchEnd,
}

pub(super) fn run(setup: &Setup, measurement: Measurement) -> Result<Outcome, BlockError> {
    run_on::<Wheel<Event>>(setup, measurement)
}

pub(super) fn run_on_heap(setup: &Setup, measurement: Measurement) -> Result<Outcome, BlockError> {
    run_on::<Heap<Event>>(setup, measurement)
}

fn run_on<Q: Queue<Event>>(setup: &Setup, measurement: Measurement) -> Result<Outcome, BlockError> {
    let mut simulation = Simulation::<_, Q>::with_queue(BlockModel::new(setup, measurement)?);
    simulation.model.schedule_initial_events(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    let window = std::mem::take(&mut simulation.model.measurement).finish()?;
    Ok(simulation.model.outcome(window, events))
}

#[derive(Debug)]
struct BlockModel<'a> {
    setup: &'a Setup,
    processors: Processors<Task, Effect>,
    mapping: Mapping,
    threads: Vec<Thread>,
    requests: Slab<Request>,
    commands: Slab<Command>,
    queues: Vec<CompletionQueue>,
    /// The link, towards memory and from memory.
    up: SerialServer,
    down: SerialServer,
    dies: Dies,
    interrupts: u64,
    /// Requests in flight, and commands in queues.
    in_flight: TimeAverage,
    in_queues: TimeAverage,
    measurement: Measurement,
    is_measuring: bool,
    is_over: bool,
    measured: Measured,
    totals: Totals,
    /// Counts at the beginning and at the end of the measured window.
    before: Counts,
    after: Counts,
}

impl<'a> BlockModel<'a> {
    fn new(setup: &'a Setup, measurement: Measurement) -> Result<Self, HostError> {
        let host = &setup.host;
        let queues = host.adapter.queues_of(host.cpus.threads());
        let mapping = Mapping::new(host.dma_path, host.mapping, &host.cpus)?;
        // A submission queue's lock is its only line: the queue belongs to one CPU.
        let queue_locks = std::iter::repeat_n(1.0, queues as usize);
        let processors =
            Processors::new(&host.cpus, host.dma_path.lock_lines(&host.mapping).chain(queue_locks))?;
        let before = Counts::beginning(processors.counts(Time::ZERO, &mapping), host.cpus.threads());
        Ok(Self {
            setup,
            processors,
            threads: Thread::all(setup),
            requests: Slab::default(),
            commands: Slab::default(),
            queues: (0..queues).map(|_| CompletionQueue::default()).collect(),
            up: SerialServer::default(),
            down: SerialServer::default(),
            dies: Dies::new(&host.media, setup.seed),
            interrupts: 0,
            in_flight: TimeAverage::default(),
            in_queues: TimeAverage::default(),
            measurement,
            is_measuring: false,
            is_over: false,
            measured: Measured::new(setup.jobs.len())?,
            totals: Totals::default(),
            after: before.clone(),
            before,
            mapping,
        })
    }

    fn schedule_initial_events(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for thread in 0..self.threads.len() as u32 {
            let mut stream = Stream::new(self.setup.seed, u64::from(thread) + (1 << 32));
            let at = Span::from_ps(stream.below(START_SPREAD.as_ps()));
            calendar.schedule_in(at, Event::ThreadStart { thread });
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

    fn adapter(&self) -> &'a NvmeAdapter {
        &self.setup.host.adapter
    }

    fn apply_effect(&mut self, now: Time, effect: Effect, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match effect {
            Effect::RequestFinished { request } => self.finish_request(now, request),
            Effect::RequestStarted { request } => self.start_request(now, request),
            Effect::Doorbell { command } => self.ring_doorbell(now, command, calendar),
            Effect::ThreadContinues { thread } => self.continue_thread(thread, calendar),
            Effect::ThreadSleeps { thread } => self.put_to_sleep(thread, calendar),
            Effect::CommandCompleted { command } => self.complete_command(now, command, calendar),
            Effect::QueueDrained { queue } => self.queue_drained(now, queue, calendar),
        }
    }
}

impl Model for BlockModel<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::ThreadStart { thread } => self.wake(thread, false, calendar),
            Event::CpuWakeUp { cpu } => self.begin_if_idle(now, cpu, calendar),
            Event::StepDone { cpu } => self.run_next_step(now, cpu, calendar),
            Event::Doorbell { command } => self.fetch(now, command, Fetch::Command, calendar),
            Event::MemoryAnswers { command, fetch } => {
                self.transfer_from_memory(now, command, fetch, calendar)
            }
            Event::Fetched { command, fetch } => self.process_fetched(now, command, fetch, calendar),
            Event::MediaStart { command } => self.access_media(now, command, calendar),
            Event::PageSensed { command, die, bytes } => {
                self.transfer_sensed_page(now, command, die, bytes, calendar)
            }
            Event::PageRead { command } => self.finish_page_read(now, command, calendar),
            Event::PageAtDie { to, die } => self.program_page(now, to, die, calendar),
            Event::PageProgrammed { to } => self.finish_programming(now, to, calendar),
            Event::CompletionPosted { command } => self.post_completion(now, command, calendar),
            Event::CoalescingTimer { queue, timer } => {
                self.coalescing_timer_expired(now, queue, timer, calendar)
            }
            Event::Interrupt { queue } => self.handle_interrupt(queue, calendar),
            Event::BatchEnd => self.end_batch(now, calendar),
        }
    }
}
