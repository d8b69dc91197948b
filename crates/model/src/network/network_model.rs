//! The simulated machine: both hosts, event by event.

mod cleaning;
mod plan;
mod processor;
mod receiving;
mod sending;
mod threads;
mod usage;

use super::descriptors::DESCRIPTOR_BYTES;
use super::flow::Flow;
use super::frame::Frame;
use super::network_host::{HostState, ring_of_flow};
use super::outcome::{Outcome, Totals};
use super::packet::Framing;
use super::task::{Effect, Task};
use super::{NetworkError, Setup};
use crate::host::{HostError, Level, Step};
use crate::steady::{Measurement, Progress};
use des::{Calendar, Heap, Model, Queue, Simulation, Span, Stream, Time, Wheel};
use threads::Resumed;
use usage::{Counts, Measured};

/// Most frames that a poll takes (`NAPI_POLL_WEIGHT`).
const POLL_FRAMES_MAX: u32 = 64;
/// Most bursts cleaned up by one task, so that other rings of the same CPU get their turn.
const CLEAN_UP_BURSTS_MAX: u32 = 64;
/// Most bytes of a read.
const READ_BYTES_MAX: u64 = 64 << 10;
/// Most system calls of a task, which bounds the delay of interrupts.
const CALLS_MAX: u64 = 16;
/// Instances start at random times within this span.
const START_SPREAD: Span = Span::from_us(100);
const CLIENT: usize = 0;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// An instance starts.
    InstanceStart { flow: u32 },
    /// An idle CPU got a task.
    CpuWakeUp { host: u8, cpu: u32 },
    /// A CPU has finished a step.
    StepDone { host: u8, cpu: u32 },
    /// The adapter has read the descriptors of a burst.
    DescriptorsRead { host: u8, burst: u32 },
    /// The adapter's read requests for a frame reach the host.
    ReadRequested { host: u8, burst: u32, frame: u32 },
    /// Their addresses are translated, and memory answers.
    MemoryAnswers { host: u8, burst: u32, frame: u32 },
    /// A frame arrives from the wire.
    FrameArrives { host: u8, frame: Frame },
    /// A received frame has crossed the link to the host.
    FrameAtHost { host: u8, frame: Frame },
    /// It is in memory.
    FrameInMemory { host: u8, frame: Frame },
    /// The last frame of a burst is on the wire.
    BurstSent { host: u8, burst: u32 },
    /// A receive ring's moderation timer expires.
    ReceiveTimer { host: u8, ring: u32, timer: u32 },
    /// A send ring's moderation timer expires.
    SendTimer { host: u8, ring: u32, timer: u32 },
    /// The warm-up or a batch of the measured window ends.
    BatchEnd,
}

pub(super) fn run(setup: &Setup, measurement: Measurement) -> Result<Outcome, NetworkError> {
    run_on::<Wheel<Event>>(setup, measurement)
}

pub(super) fn run_on_heap(setup: &Setup, measurement: Measurement) -> Result<Outcome, NetworkError> {
    run_on::<Heap<Event>>(setup, measurement)
}

fn run_on<Q: Queue<Event>>(setup: &Setup, measurement: Measurement) -> Result<Outcome, NetworkError> {
    setup.check()?;
    let mut simulation = Simulation::<_, Q>::with_queue(NetworkModel::new(setup, measurement)?);
    simulation.model.schedule_initial_events(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    let window = std::mem::take(&mut simulation.model.measurement).finish()?;
    Ok(simulation.model.outcome(window, events))
}

#[derive(Debug)]
struct NetworkModel<'a> {
    setup: &'a Setup,
    hosts: [HostState; 2],
    flows: Vec<Flow>,
    /// The rings of each flow, per host: receive and send.
    rings: Vec<[[u32; 2]; 2]>,
    framing: Framing,
    measurement: Measurement,
    is_measuring: bool,
    is_over: bool,
    measured: Measured,
    totals: Totals,
    /// An empty list for steps that an effect adds.
    steps: Vec<Step<Effect>>,
    /// Counts at the beginning and at the end of the measured window.
    before: [Counts; 2],
    after: [Counts; 2],
}

impl<'a> NetworkModel<'a> {
    fn new(setup: &'a Setup, measurement: Measurement) -> Result<Self, HostError> {
        let [client, server] = &setup.hosts;
        let rings_of = |flow| {
            setup.hosts.each_ref().map(|host| {
                let ring = |rings| ring_of_flow(setup, flow, rings);
                [ring(host.adapter.receive_rings), ring(host.adapter.send_rings)]
            })
        };
        let hosts = [HostState::new(client)?, HostState::new(server)?];
        let begun = |flow| Flow {
            cpus: setup.hosts.each_ref().map(|host| host.cpus.of_thread(flow)),
            ..Flow::default()
        };
        let spent = || hosts.each_ref().map(|host| Counts::of(host, Time::ZERO));
        let mut machine = Self {
            setup,
            before: spent(),
            after: spent(),
            flows: (0..setup.instances).map(begun).collect(),
            rings: (0..setup.instances).map(rings_of).collect(),
            framing: Framing::new(setup.work.protocol, setup.wire.mtu_bytes),
            measurement,
            is_measuring: false,
            is_over: false,
            measured: Measured::new()?,
            totals: Totals::default(),
            steps: Vec::new(),
            hosts,
        };
        machine.hosts.iter_mut().for_each(fill_rings);
        Ok(machine)
    }

    fn schedule_initial_events(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for flow in 0..self.setup.instances {
            let mut stream = Stream::new(self.setup.seed, u64::from(flow) + (1 << 32));
            let at = Span::from_ps(stream.below(START_SPREAD.as_ps()));
            self.flows[flow as usize].is_reading = [false, true];
            calendar.schedule_in(at, Event::InstanceStart { flow });
        }
        calendar.schedule_in(self.measurement.first(), Event::BatchEnd);
    }

    /// Begins, continues or ends the measured window. After its end nothing new is written.
    fn end_batch(&mut self, now: Time, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let counts = |hosts: &[HostState; 2]| hosts.each_ref().map(|host| Counts::of(host, now));
        match self.measurement.take(self.sample(), calendar.scheduled()) {
            Progress::Begins(next) => {
                self.is_measuring = true;
                self.measured.clear();
                self.before = counts(&self.hosts);
                calendar.schedule_in(next, Event::BatchEnd);
            }
            Progress::Continues(next) => calendar.schedule_in(next, Event::BatchEnd),
            Progress::Ends => {
                (self.is_measuring, self.is_over) = (false, true);
                self.after = counts(&self.hosts);
            }
        }
    }

    fn apply_effect(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        effect: Effect,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match effect {
            Effect::Transmit { packet } => self.transmit(now, host, cpu, packet),
            Effect::TransmitNext { ring, left } => {
                self.transmit_next(now, host, cpu, (ring, left), calendar);
            }
            Effect::ReceiveNext { ring, left } => self.receive_next(host, cpu, ring, left),
            Effect::FinishPoll { ring } => self.finish_poll(host, cpu, ring),
            Effect::CleanUpNext { ring, left } => self.clean_up_next(host, cpu, ring, left),
            Effect::Freed { flow, bytes } => {
                self.flows[flow as usize].freed += u64::from(bytes);
                self.write_next(flow, Resumed::Woken, calendar);
            }
            Effect::Send { burst } => self.send(now, host, burst, calendar),
            Effect::Deliver { flow, bytes } => {
                self.flows[flow as usize].unread[host] += u64::from(bytes);
                self.read_next(host, flow, Resumed::Woken, calendar);
            }
            Effect::Acknowledged { flow, bytes } => {
                self.flows[flow as usize].acknowledged += u64::from(bytes);
                self.write_next(flow, Resumed::Woken, calendar);
            }
            Effect::Polled { ring } => self.poll_finished(now, host, ring, calendar),
            Effect::CleanedUp { ring } => self.cleaned_up(host, ring, calendar),
            Effect::Written { flow } => self.message_written(host, flow, calendar),
            Effect::Read { flow, bytes } => self.data_read(now, host, flow, bytes, calendar),
        }
    }
}

/// Gives each ring its buffers and descriptors before the simulation starts.
fn fill_rings(state: &mut HostState) {
    let adapter = &state.adapter;
    let ring_bytes = |entries: u32| u64::from(entries) * DESCRIPTOR_BYTES;
    let [receive, send] = [adapter.receive_entries, adapter.send_entries].map(ring_bytes);
    for ring in &mut state.rings.receive {
        ring.descriptors.shared = state.mapping.share(receive);
    }
    for ring in &mut state.rings.send {
        ring.descriptors.shared = state.mapping.share(send);
    }
    for ring in 0..state.rings.receive.len() {
        let cpu = state.cpu_of_ring(ring as u32);
        for pieces in &mut state.rings.receive[ring].pieces {
            let mappings = pieces.mappings(state.adapter.receive_entries);
            let map = |_| state.mapping.map::<Effect>(cpu, pieces.mapping_bytes, &mut Vec::new());
            pieces.mapped = (0..mappings).filter_map(map).collect();
        }
    }
}

impl Model for NetworkModel<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::InstanceStart { flow } => {
                self.flows[flow as usize].began = now;
                let cpu = self.flows[flow as usize].cpus[CLIENT];
                self.hosts[CLIENT].processors.push(cpu, Task::Write { flow }, Level::Thread);
                self.begin_if_idle(now, CLIENT, cpu, calendar);
            }
            Event::CpuWakeUp { host, cpu } => self.begin_if_idle(now, host.into(), cpu, calendar),
            Event::StepDone { host, cpu } => self.run_next_step(now, host.into(), cpu, calendar),
            Event::DescriptorsRead { host, burst } => self.request_frames(now, host.into(), burst, calendar),
            Event::ReadRequested { host, burst, frame } => {
                self.translate_requests(now, host.into(), burst, frame, calendar)
            }
            Event::MemoryAnswers { host, burst, frame } => {
                self.transmit_frame(now, now, host.into(), burst, frame, calendar);
            }
            Event::FrameAtHost { host, frame } => self.write_frame(now, host.into(), frame, calendar),
            Event::FrameArrives { host, frame } => self.receive_frame(now, host.into(), frame, calendar),
            Event::FrameInMemory { host, frame } => self.frame_in_memory(host.into(), frame, calendar),
            Event::BurstSent { host, burst } => self.burst_sent(host.into(), burst, calendar),
            Event::ReceiveTimer { host, ring, timer } => {
                if self.hosts[usize::from(host)].rings.receive[ring as usize].moderation.is_over(timer) {
                    self.raise_receive_interrupt(host.into(), ring, calendar);
                }
            }
            Event::SendTimer { host, ring, timer } => {
                if self.hosts[usize::from(host)].rings.send[ring as usize].moderation.is_over(timer) {
                    self.raise_send_interrupt(host.into(), ring, calendar);
                }
            }
            Event::BatchEnd => self.end_batch(now, calendar),
        }
    }
}
