//! Both hosts, event by event.

mod plan;
mod processor;
mod rings;
mod threads;
mod usage;

use super::Setup;
use super::adapter::{DESCRIPTOR_BYTES, Frame};
use super::flow::Flow;
use super::host::{State, ring_of_flow};
use super::outcome::{Outcome, Totals};
use super::task::{Effect, Task};
use crate::host::{HostError, Level};
use des::{Calendar, Heap, Model, Queue, RunningStats, Simulation, Span, SpanHistogram, Stream, Time, Wheel};
use threads::Resumed;
use usage::Counts;

/// Frames that a poll takes at most (`NAPI_POLL_WEIGHT`).
const POLL_FRAMES_MAX: usize = 64;
/// What was sent that is taken back at once, at most: as long as there is more, rings of the same CPU come in between.
const REAP_BURSTS_MAX: usize = 64;
/// Bytes of a header that is mapped for itself, in front of a stream's bytes.
const HEADER_BYTES: u64 = 128;
/// Bytes that a read takes at most, where many were written.
const READ_BYTES_MAX: u64 = 64 << 10;
/// System calls of a task at most: interrupts wait no longer.
const CALLS_MAX: u64 = 16;
/// Instances begin within this time.
const BEGINNING: Span = Span::from_us(100);
const CLIENT: usize = 0;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// An instance begins.
    Open { flow: u32 },
    /// A CPU may have something to do.
    Begin { host: u8, cpu: u32 },
    /// A CPU's step is over.
    Step { host: u8, cpu: u32 },
    /// The adapter knows of a burst.
    Told { host: u8, burst: u32 },
    /// Its requests for a frame are with the host.
    Asked { host: u8, burst: u32, frame: u32 },
    /// They have found their memory.
    Reached { host: u8, burst: u32, frame: u32 },
    /// A frame is at the adapter.
    Arrived { host: u8, frame: Frame },
    /// It is with the host.
    Crossed { host: u8, frame: Frame },
    /// It is in memory.
    Received { host: u8, frame: Frame },
    /// The last frame of a burst is on the wire.
    Sent { host: u8, burst: u32 },
    /// Received frames were waited for long enough.
    ReceiveDue { host: u8, ring: u32, timer: u32 },
    /// Or sent ones.
    SendDue { host: u8, ring: u32, timer: u32 },
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
    hosts: [State; 2],
    flows: Vec<Flow>,
    /// Rings of each flow: received into and sent from, by host.
    rings: Vec<[[u32; 2]; 2]>,
    is_measuring: bool,
    is_over: bool,
    operations: u64,
    read_bytes: u64,
    latencies: SpanHistogram,
    latency: RunningStats,
    totals: Totals,
    /// What was spent before measuring began, and when it ended.
    before: [Counts; 2],
    after: [Counts; 2],
}

impl<'a> Machine<'a> {
    fn new(setup: &'a Setup) -> Result<Self, HostError> {
        let [client, server] = &setup.hosts;
        let rings_of = |flow| {
            setup.hosts.each_ref().map(|host| {
                let ring = |rings| ring_of_flow(setup, flow, rings);
                [ring(host.adapter.receive_rings), ring(host.adapter.send_rings)]
            })
        };
        let hosts = [State::new(client)?, State::new(server)?];
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

    fn begin(&mut self, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        for flow in 0..self.setup.instances {
            let mut stream = Stream::new(self.setup.seed, u64::from(flow) + (1 << 32));
            let at = Span::from_ps(stream.below(BEGINNING.as_ps()));
            self.flows[flow as usize].is_reading = [false, true];
            calendar.schedule_in(at, Event::Open { flow });
        }
        calendar.schedule_in(self.setup.warm_up, Event::Mark);
        calendar.schedule_in(self.setup.warm_up + self.setup.measured, Event::End);
    }

    fn lead_to(
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
            Effect::Polled { ring } => self.polled(host, ring, calendar),
            Effect::Reaped { ring } => self.reaped(host, ring, calendar),
            Effect::Written { flow } => self.written(host, flow, calendar),
            Effect::Read { flow, bytes } => self.read(now, host, flow, bytes, calendar),
        }
    }
}

/// Gives each ring its buffers and descriptors, before time begins. Those of a ring that is sent from are as many as of others.
fn fill_rings(state: &mut State) {
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

impl Model for Machine<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Open { flow } => {
                self.flows[flow as usize].began = now;
                let cpu = self.flows[flow as usize].cpus[CLIENT];
                self.hosts[CLIENT].processors.push(cpu, Task::Write { flow }, Level::Thread);
                self.begin_if_idle(now, CLIENT, cpu, calendar);
            }
            Event::Begin { host, cpu } => self.begin_if_idle(now, host.into(), cpu, calendar),
            Event::Step { host, cpu } => self.run_next_step(now, host.into(), cpu, calendar),
            Event::Told { host, burst } => self.told(now, host.into(), burst, calendar),
            Event::Asked { host, burst, frame } => self.asked(now, host.into(), burst, frame, calendar),
            Event::Reached { host, burst, frame } => {
                self.fetched(now, now, host.into(), burst, frame, calendar);
            }
            Event::Crossed { host, frame } => self.crossed(now, host.into(), frame, calendar),
            Event::Arrived { host, frame } => self.arrived(now, host.into(), frame, calendar),
            Event::Received { host, frame } => self.received(host.into(), frame, calendar),
            Event::Sent { host, burst } => self.sent(host.into(), burst, calendar),
            Event::ReceiveDue { host, ring, timer } => {
                if self.hosts[usize::from(host)].rings.receive[ring as usize].moderation.is_over(timer) {
                    self.interrupt(host.into(), ring, calendar);
                }
            }
            Event::SendDue { host, ring, timer } => {
                if self.hosts[usize::from(host)].rings.send[ring as usize].moderation.is_over(timer) {
                    self.reap(host.into(), ring, calendar);
                }
            }
            Event::Mark => {
                self.is_measuring = true;
                self.before = self.hosts.each_ref().map(|host| Counts::of(host, now));
            }
            Event::End => {
                (self.is_measuring, self.is_over) = (false, true);
                self.after = self.hosts.each_ref().map(|host| Counts::of(host, now));
            }
        }
    }
}
