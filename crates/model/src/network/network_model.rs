//! The simulated machine: both hosts, event by event.

mod plan;
mod processor;
mod rings;
mod threads;
mod usage;

use super::Setup;
use super::flow::Flow;
use super::network_adapter::{DESCRIPTOR_BYTES, Frame};
use super::network_host::{HostState, ring_of_flow};
use super::outcome::{Outcome, Totals};
use super::task::{Effect, Task};
use crate::host::{HostError, Level};
use des::{Calendar, Heap, Model, Queue, RunningStats, Simulation, Span, SpanHistogram, Stream, Time, Wheel};
use threads::Resumed;
use usage::Counts;

/// Most frames that a poll takes (`NAPI_POLL_WEIGHT`).
const POLL_FRAMES_MAX: usize = 64;
/// Most bursts cleaned up by one task, so that other rings of the same CPU get their turn.
const CLEAN_UP_BURSTS_MAX: usize = 64;
/// Bytes of a header that is mapped separately from a stream's data.
const HEADER_BYTES: u64 = 128;
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
    /// The warm-up ends and measuring begins.
    WarmUpEnd,
    /// Measuring ends. Nothing new is written.
    MeasurementEnd,
}

pub(super) fn run(setup: &Setup) -> Result<Outcome, HostError> {
    run_on::<Wheel<Event>>(setup)
}

pub(super) fn run_on_heap(setup: &Setup) -> Result<Outcome, HostError> {
    run_on::<Heap<Event>>(setup)
}

fn run_on<Q: Queue<Event>>(setup: &Setup) -> Result<Outcome, HostError> {
    let mut simulation = Simulation::<_, Q>::with_queue(NetworkModel::new(setup)?);
    simulation.model.schedule_initial_events(&mut simulation.calendar);
    simulation.run();
    let events = simulation.handled();
    Ok(simulation.model.outcome(events))
}

#[derive(Debug)]
struct NetworkModel<'a> {
    setup: &'a Setup,
    hosts: [HostState; 2],
    flows: Vec<Flow>,
    /// The rings of each flow, per host: receive and send.
    rings: Vec<[[u32; 2]; 2]>,
    is_measuring: bool,
    is_over: bool,
    operations: u64,
    read_bytes: u64,
    latencies: SpanHistogram,
    latency: RunningStats,
    totals: Totals,
    /// Counts at the end of the warm-up, and at the end of measuring.
    before: [Counts; 2],
    after: [Counts; 2],
}

impl<'a> NetworkModel<'a> {
    fn new(setup: &'a Setup) -> Result<Self, HostError> {
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
            is_measuring: false,
            is_over: false,
            operations: 0,
            read_bytes: 0,
            latencies: SpanHistogram::new(3)?,
            latency: RunningStats::default(),
            totals: Totals::default(),
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
        calendar.schedule_in(self.setup.warm_up, Event::WarmUpEnd);
        calendar.schedule_in(self.setup.warm_up + self.setup.measured, Event::MeasurementEnd);
    }

    fn apply_effect(
        &mut self,
        now: Time,
        host: usize,
        effect: Effect,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        match effect {
            Effect::Send { burst } => self.send(now, host, burst, calendar),
            Effect::Deliver { flow, bytes } => {
                self.flows[flow as usize].unread[host] += u64::from(bytes);
                self.read_next(host, flow, Resumed::Woken, calendar);
            }
            Effect::Acknowledged { flow, bytes } => {
                self.flows[flow as usize].acknowledged += u64::from(bytes);
                self.write_next(flow, Resumed::Woken, calendar);
            }
            Effect::Polled { ring } => self.poll_finished(host, ring, calendar),
            Effect::CleanedUp { ring } => self.cleaned_up(host, ring, calendar),
            Effect::Written { flow } => self.message_written(host, flow, calendar),
            Effect::Read { flow, bytes } => self.data_read(now, host, flow, bytes, calendar),
        }
    }
}

/// Gives each ring its buffers and descriptors before the simulation starts. All send rings have as many descriptors
/// as receive rings.
fn fill_rings(state: &mut HostState) {
    let bytes = u64::from(state.adapter.receive_entries) * DESCRIPTOR_BYTES;
    let receive = state.rings.receive.iter_mut().map(|ring| &mut ring.descriptors);
    let send = state.rings.send.iter_mut().map(|ring| &mut ring.descriptors);
    for descriptors in receive.chain(send) {
        descriptors.shared = state.mapping.share(bytes);
    }
    for ring in 0..state.rings.receive.len() {
        let cpu = state.cpu_of_ring(ring as u32);
        for pieces in &mut state.rings.receive[ring].pieces {
            let entries = u64::from(state.adapter.receive_entries);
            let mappings = entries.div_ceil(pieces.frames_per_mapping);
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
            Event::WarmUpEnd => {
                self.is_measuring = true;
                self.before = self.hosts.each_ref().map(|host| Counts::of(host, now));
            }
            Event::MeasurementEnd => {
                (self.is_measuring, self.is_over) = (false, true);
                self.after = self.hosts.each_ref().map(|host| Counts::of(host, now));
            }
        }
    }
}
