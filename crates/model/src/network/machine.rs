//! Both hosts, event by event.

use super::adapter::{Burst, Frame, What};
use super::cpu::{Effect, Step, Task};
use super::flow::{Flow, Pattern, Protocol, TCP_HEADER_BYTES};
use super::host::{State, ring_of_flow};
use super::outcome::{HostUsage, Outcome, Stage, Totals};
use super::{NetworkError, Setup};
use des::{Calendar, Heap, Model, Moments, Queue, Simulation, Span, SpanHistogram, Stream, Time, Wheel};

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
const SERVER: usize = 1;

#[derive(Debug, Clone, Copy)]
enum Event {
    /// An instance begins.
    Open { flow: u32 },
    /// A CPU may have something to do.
    Begin { host: u8, cpu: u32 },
    /// A CPU's step is over.
    Step { host: u8, cpu: u32 },
    /// A frame is at the adapter.
    Arrived { host: u8, frame: Frame },
    /// It is in memory.
    Received { host: u8, frame: Frame },
    /// The last frame of a burst is on the wire.
    Sent { host: u8, burst: u32 },
    /// Received frames were waited for long enough.
    ReceiveDue { host: u8, ring: u32 },
    /// Or sent ones.
    SendDue { host: u8, ring: u32 },
    /// Measuring begins.
    Mark,
    /// It ends, and nothing new is begun.
    End,
}

pub(super) fn run(setup: &Setup) -> Result<Outcome, NetworkError> {
    run_on::<Wheel<Event>>(setup)
}

pub(super) fn run_on_heap(setup: &Setup) -> Result<Outcome, NetworkError> {
    run_on::<Heap<Event>>(setup)
}

fn run_on<Q: Queue<Event>>(setup: &Setup) -> Result<Outcome, NetworkError> {
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
    latency: Moments,
    totals: Totals,
    /// What was before measuring began, and the difference when it ended.
    before: [Counts; 2],
    usage: Option<[HostUsage; 2]>,
}

/// What a host has spent up to a time.
#[derive(Debug, Clone, Default)]
struct Counts {
    at: Time,
    busy: Span,
    stages: [Span; 5],
    wire: Span,
    up: Span,
    down: Span,
    locks: Vec<LockCounts>,
    bill: dma::Bill,
}

#[derive(Debug, Clone, Copy, Default)]
struct LockCounts {
    busy_ps: u128,
    waited_ps: u128,
    arrivals: u64,
}

impl<'a> Machine<'a> {
    fn new(setup: &'a Setup) -> Result<Self, NetworkError> {
        let [client, server] = &setup.hosts;
        let rings_of = |flow| {
            setup.hosts.each_ref().map(|host| {
                let ring = |rings| ring_of_flow(setup, flow, rings);
                [ring(host.adapter.receive_rings), ring(host.adapter.send_rings)]
            })
        };
        let mut machine = Self {
            setup,
            hosts: [State::new(client)?, State::new(server)?],
            flows: vec![Flow::default(); setup.instances as usize],
            rings: (0..setup.instances).map(rings_of).collect(),
            is_measuring: false,
            is_over: false,
            operations: 0,
            read_bytes: 0,
            latencies: SpanHistogram::new(3)?,
            latency: Moments::default(),
            totals: Totals::default(),
            before: Default::default(),
            usage: None,
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

    /// Gives a CPU something to do.
    fn push(&mut self, host: usize, cpu: u32, task: Task, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let state = &mut self.hosts[host];
        let known = &mut state.cpus[cpu as usize];
        known.push(task);
        if !known.is_busy {
            let is_thread = matches!(task, Task::Write { .. } | Task::Read { .. });
            let delay = if is_thread { state.setup.cpus.wake } else { Span::ZERO };
            calendar.schedule_in(delay, Event::Begin { host: host as u8, cpu });
        }
    }

    fn begin_if_idle(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.hosts[host].cpus[cpu as usize].is_busy {
            self.begin_task(now, host, cpu, calendar);
        }
    }

    /// Begins the next task of a CPU that has none.
    fn begin_task(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let core = state.setup.cpus.core(cpu) as usize;
        let known = &mut state.cpus[cpu as usize];
        let was_busy = known.is_busy;
        let task = known.pop();
        known.set_busy(now, task.is_some());
        match (was_busy, task.is_some()) {
            (false, true) => state.busy_in_core[core] += 1,
            (true, false) => state.busy_in_core[core] -= 1,
            _ => {}
        }
        if let Some(task) = task {
            let mut steps = std::mem::take(&mut self.hosts[host].cpus[cpu as usize].steps);
            steps.clear();
            self.plan(host, cpu, task, &mut steps);
            steps.reverse();
            self.hosts[host].cpus[cpu as usize].steps = steps;
            self.go_on(now, host, cpu, calendar);
        }
    }

    /// Does what takes no time, up to the next step that does.
    fn go_on(&mut self, now: Time, host: usize, cpu: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.hosts[host].set_doing(now, cpu, None);
        loop {
            let Some(step) = self.hosts[host].cpus[cpu as usize].steps.pop() else {
                return self.begin_task(now, host, cpu, calendar);
            };
            match step {
                Step::Work(span, stage) => {
                    let state = &mut self.hosts[host];
                    let takes = Span::from_ps_f64(span.as_ps_f64() * state.slowness(cpu));
                    state.set_doing(now, cpu, Some(stage));
                    return calendar.schedule_in(takes, Event::Step { host: host as u8, cpu });
                }
                Step::Acquire(lock) => {
                    if !self.acquire(now, host, cpu, lock, calendar) {
                        return;
                    }
                }
                Step::Release(lock) => self.release(now, host, lock, calendar),
                Step::Then(effect) => self.lead_to(now, host, effect, calendar),
            }
        }
    }

    /// Whether the CPU has the lock at once. If not, its step ends when it has.
    fn acquire(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        lock: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) -> bool {
        let state = &mut self.hosts[host];
        let holder = state.setup.cpus.holder(cpu);
        state.set_doing(now, cpu, Some(Stage::Lock));
        match state.mapping.locks[lock as usize].acquire(now, holder, cpu) {
            Ok(Some(transfer)) if transfer > Span::ZERO => {
                calendar.schedule_in(transfer, Event::Step { host: host as u8, cpu });
                false
            }
            Ok(None) => false,
            Ok(Some(_)) | Err(_) => {
                state.set_doing(now, cpu, None);
                true
            }
        }
    }

    fn release(
        &mut self,
        now: Time,
        host: usize,
        lock: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        if let Ok(Some(grant)) = state.mapping.locks[lock as usize].release(now) {
            calendar.schedule_in(grant.transfer, Event::Step { host: host as u8, cpu: grant.who });
        }
    }

    /// The steps of a task.
    fn plan(&mut self, host: usize, cpu: u32, task: Task, steps: &mut Vec<Step>) {
        match task {
            Task::Write { flow } => self.plan_write(host, cpu, flow, steps),
            Task::Read { flow } => self.plan_read(host, flow, steps),
            Task::Poll { ring, by_interrupt } => self.plan_poll(host, cpu, ring, by_interrupt, steps),
            Task::Reap { ring, by_interrupt } => self.plan_reap(host, cpu, ring, by_interrupt, steps),
        }
    }

    fn plan_write(&mut self, host: usize, cpu: u32, flow: u32, steps: &mut Vec<Step>) {
        let path = self.hosts[host].setup.paths.write;
        let message_bytes = self.setup.work.message_bytes;
        let writes = self.writes_at_once(flow);
        steps.push(self.stack(host, path * writes as f64));
        let mut bytes = message_bytes * writes;
        if let Pattern::Stream { .. } = self.setup.work.pattern {
            self.operations += if self.is_measuring { writes } else { 0 };
            bytes = self.gathered(flow, bytes);
        }
        self.totals.written_bytes += bytes;
        match self.setup.work.protocol {
            Protocol::Udp => self.plan_datagram(host, cpu, flow, bytes, steps),
            Protocol::Tcp { segment_bytes_max } => {
                self.plan_segments(host, cpu, flow, bytes, segment_bytes_max, steps);
            }
        }
        steps.push(Step::Then(Effect::Written { flow }));
    }

    /// Up to a frame's worth of a stream.
    fn writes_at_once(&self, flow: u32) -> u64 {
        let work = &self.setup.work;
        let gathered = self.flows[flow as usize].gathered;
        match work.pattern {
            Pattern::Exchange => 1,
            Pattern::Stream { .. } => {
                let left = self.frame_payload().saturating_sub(gathered);
                left.div_ceil(work.message_bytes).clamp(1, CALLS_MAX)
            }
        }
    }

    /// A stream of messages that are shorter than a frame leaves by whole frames (Nagle's algorithm).
    fn gathered(&mut self, flow: u32, bytes: u64) -> u64 {
        let payload = self.frame_payload();
        let known = &mut self.flows[flow as usize];
        known.gathered += bytes;
        if known.gathered < payload {
            return 0;
        }
        known.written += known.gathered;
        std::mem::take(&mut known.gathered)
    }

    fn frame_payload(&self) -> u64 {
        self.setup.wire.mtu_bytes - self.setup.work.protocol.header_bytes()
    }

    fn plan_datagram(&mut self, host: usize, cpu: u32, flow: u32, bytes: u64, steps: &mut Vec<Step>) {
        let path = self.hosts[host].setup.paths.send;
        for frame in self.frames(flow, bytes) {
            steps.push(self.stack(host, path));
            let is_inline = frame.ethernet_bytes() <= self.hosts[host].setup.adapter.inline_bytes;
            let mapped = if is_inline { &[][..] } else { &[frame.ethernet_bytes()] };
            self.plan_burst(host, cpu, vec![frame], mapped, steps);
        }
    }

    fn plan_segments(
        &mut self,
        host: usize,
        cpu: u32,
        flow: u32,
        bytes: u64,
        most: u64,
        steps: &mut Vec<Step>,
    ) {
        let path = self.hosts[host].setup.paths.send;
        for from in (0..bytes).step_by(most as usize) {
            let segment = (bytes - from).min(most);
            let frames = self.frames(flow, segment);
            steps.push(self.stack(host, path * frames.len() as f64));
            let is_inline = frames.len() == 1
                && frames[0].ethernet_bytes() <= self.hosts[host].setup.adapter.inline_bytes;
            let mapped = if is_inline { &[][..] } else { &[HEADER_BYTES, segment] };
            self.plan_burst(host, cpu, frames, mapped, steps);
        }
    }

    /// Cuts bytes into frames.
    fn frames(&self, flow: u32, bytes: u64) -> Vec<Frame> {
        let (payload, headers) = (self.frame_payload(), self.setup.work.protocol.header_bytes());
        let frame = |bytes: u64| Frame {
            flow,
            bytes: bytes as u32,
            ip_bytes: (bytes + headers) as u32,
            what: What::Data,
        };
        (0..bytes).step_by(payload as usize).map(|from| frame((bytes - from).min(payload))).collect()
    }

    /// Maps what is sent together, and hands it to the adapter.
    fn plan_burst(
        &mut self,
        host: usize,
        cpu: u32,
        frames: Vec<Frame>,
        mapped_bytes: &[u64],
        steps: &mut Vec<Step>,
    ) {
        let state = &mut self.hosts[host];
        let mapped = mapped_bytes.iter().filter_map(|bytes| state.mapping.map(cpu, *bytes, steps)).collect();
        let burst = state.rings.put(Burst { frames, mapped });
        steps.push(Step::Then(Effect::Send { burst }));
    }

    fn plan_read(&mut self, host: usize, flow: u32, steps: &mut Vec<Step>) {
        let path = self.hosts[host].setup.paths.read;
        let unread = &mut self.flows[flow as usize].unread[host];
        let message_bytes = self.setup.work.message_bytes;
        let (bytes, reads) = match self.setup.work.pattern {
            Pattern::Exchange => (message_bytes, 1),
            Pattern::Stream { .. } => {
                let taken = (*unread).min(READ_BYTES_MAX).min(message_bytes * CALLS_MAX);
                (taken, taken.div_ceil(message_bytes))
            }
        };
        *unread -= bytes;
        steps.push(self.stack(host, path * reads as f64));
        steps.push(Step::Then(Effect::Read { flow, bytes }));
    }

    fn plan_poll(&mut self, host: usize, cpu: u32, ring: u32, by_interrupt: bool, steps: &mut Vec<Step>) {
        let paths = self.hosts[host].setup.paths;
        if by_interrupt {
            steps.push(self.stack(host, paths.interrupt));
        }
        let waiting = &mut self.hosts[host].rings.receive[ring as usize].frames;
        let taken: Vec<Frame> = waiting.drain(..waiting.len().min(POLL_FRAMES_MAX)).collect();
        let mut new = Vec::new();
        for frame in &taken {
            let Frame { flow, bytes, .. } = *frame;
            match frame.what {
                What::Data => {
                    steps.push(self.stack(host, paths.receive));
                    self.plan_buffers(host, cpu, ring, frame.ethernet_bytes(), &mut new, steps);
                    steps.push(Step::Then(Effect::Deliver { flow, bytes }));
                }
                // What that costs is part of the path of the frame that it acknowledges.
                What::Acknowledgement => steps.push(Step::Then(Effect::Acknowledged { flow, bytes })),
            }
        }
        self.plan_acknowledgements(host, cpu, &taken, steps);
        for kind in new {
            let state = &mut self.hosts[host];
            let bytes = state.rings.receive[ring as usize].pieces[kind].mapping_bytes;
            let mapped = state.mapping.map(cpu, bytes, steps);
            state.rings.receive[ring as usize].pieces[kind].mapped.extend(mapped);
        }
        steps.push(Step::Then(Effect::Polled { ring }));
    }

    /// Unmaps a frame's buffers, as far as it was the last in them, and notes which kinds are to be mapped anew.
    fn plan_buffers(
        &mut self,
        host: usize,
        cpu: u32,
        ring: u32,
        bytes: u64,
        new: &mut Vec<usize>,
        steps: &mut Vec<Step>,
    ) {
        let state = &mut self.hosts[host];
        if bytes <= state.setup.adapter.copied_bytes {
            return;
        }
        for (kind, pieces) in state.rings.receive[ring as usize].pieces.iter_mut().enumerate() {
            pieces.used += 1;
            if pieces.used < pieces.frames_per_mapping {
                continue;
            }
            pieces.used = 0;
            if let Some(mapped) = pieces.mapped.pop_front() {
                state.mapping.unmap(cpu, mapped, steps);
            }
            new.push(kind);
        }
    }

    /// Each stream is told once what came of it in a poll.
    fn plan_acknowledgements(&mut self, host: usize, cpu: u32, taken: &[Frame], steps: &mut Vec<Step>) {
        if self.setup.work.pattern == Pattern::Exchange {
            return;
        }
        let data = || taken.iter().filter(|frame| frame.what == What::Data);
        for frame in data() {
            self.flows[frame.flow as usize].to_acknowledge += u64::from(frame.bytes);
        }
        for flow in data().map(|frame| frame.flow) {
            let bytes = std::mem::take(&mut self.flows[flow as usize].to_acknowledge) as u32;
            if bytes == 0 {
                continue;
            }
            let ip_bytes = TCP_HEADER_BYTES as u32;
            let frame = Frame { flow, bytes, ip_bytes, what: What::Acknowledgement };
            let is_inline = frame.ethernet_bytes() <= self.hosts[host].setup.adapter.inline_bytes;
            let mapped = if is_inline { &[][..] } else { &[frame.ethernet_bytes()] };
            self.plan_burst(host, cpu, vec![frame], mapped, steps);
        }
    }

    fn plan_reap(&mut self, host: usize, cpu: u32, ring: u32, by_interrupt: bool, steps: &mut Vec<Step>) {
        if by_interrupt {
            let interrupt = self.hosts[host].setup.paths.interrupt;
            steps.push(self.stack(host, interrupt));
        }
        let state = &mut self.hosts[host];
        let sent = &mut state.rings.send[ring as usize].sent;
        let taken: Vec<u32> = sent.drain(..sent.len().min(REAP_BURSTS_MAX)).collect();
        for burst in taken {
            for mapped in state.rings.take(burst).mapped {
                state.mapping.unmap(cpu, mapped, steps);
            }
        }
        steps.push(Step::Then(Effect::Reaped { ring }));
    }

    fn stack(&self, host: usize, instructions: f64) -> Step {
        Step::Work(self.hosts[host].time_of(instructions), Stage::Stack)
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
                self.wake_reader(host, flow, calendar);
            }
            Effect::Acknowledged { flow, bytes } => {
                self.flows[flow as usize].acknowledged += u64::from(bytes);
                self.wake_writer(flow, calendar);
            }
            Effect::Polled { ring } => self.polled(host, ring, calendar),
            Effect::Reaped { ring } => self.reaped(host, ring, calendar),
            Effect::Written { flow } => self.written(host, flow, calendar),
            Effect::Read { flow, bytes } => self.read(now, host, flow, bytes, calendar),
        }
    }

    /// The adapter fetches frames and puts them on the wire.
    fn send(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let wire = self.setup.wire;
        let state = &mut self.hosts[host];
        let adapter = &state.setup.adapter;
        let rings = &mut state.rings;
        let mut sent = now;
        for frame in &rings.bursts[burst as usize].frames {
            let bytes = u64::from(frame.ip_bytes);
            let asked = rings.up.take(now, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)));
            let fetched =
                rings.down.take(asked, adapter.link.time_of(adapter.link.completion_bytes(0, bytes)));
            sent = rings.wire.take(fetched + adapter.latency, wire.time_of(bytes));
            self.totals.sent_frames += 1;
            let peer = 1 - host as u8;
            put(calendar, sent + wire.latency, Event::Arrived { host: peer, frame: *frame });
        }
        put(calendar, sent, Event::Sent { host: host as u8, burst });
    }

    fn arrived(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let adapter = &state.setup.adapter;
        let written = adapter.link.write_bytes(0, u64::from(frame.ip_bytes));
        let there = state.rings.up.take(now, adapter.link.time_of(written));
        put(calendar, there + adapter.latency, Event::Received { host: host as u8, frame });
    }

    fn received(&mut self, host: usize, frame: Frame, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.totals.received_frames += 1;
        let ring = self.rings[frame.flow as usize][host][0];
        let state = &mut self.hosts[host];
        let adapter = &state.setup.adapter;
        let known = &mut state.rings.receive[ring as usize];
        known.frames.push_back(frame);
        if known.is_polled {
            return;
        }
        let is_enough = known.frames.len() >= adapter.receive_frames as usize;
        if is_enough || adapter.receive_delay == Span::ZERO {
            self.interrupt(host, ring, calendar);
        } else if !known.is_delayed {
            known.is_delayed = true;
            calendar.schedule_in(adapter.receive_delay, Event::ReceiveDue { host: host as u8, ring });
        }
    }

    fn interrupt(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        if !known.is_polled && !known.frames.is_empty() {
            known.is_polled = true;
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Poll { ring, by_interrupt: true }, calendar);
        }
    }

    /// As long as there are frames, the ring is polled and raises no interrupt.
    fn polled(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        known.is_polled = !known.frames.is_empty();
        if known.is_polled {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Poll { ring, by_interrupt: false }, calendar);
        }
    }

    fn sent(&mut self, host: usize, burst: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let state = &mut self.hosts[host];
        if state.rings.bursts[burst as usize].mapped.is_empty() {
            // Nothing is to be taken back but its place; what that costs is in the path that sent it.
            state.rings.take(burst);
            return;
        }
        let Some(flow) = state.rings.bursts[burst as usize].frames.first().map(|frame| frame.flow) else {
            return;
        };
        let ring = self.rings[flow as usize][host][1];
        state.rings.send[ring as usize].sent.push_back(burst);
        self.reap_when_due(host, ring, calendar);
    }

    fn reap_when_due(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let state = &mut self.hosts[host];
        let adapter = &state.setup.adapter;
        let known = &mut state.rings.send[ring as usize];
        if known.is_reaped || known.sent.is_empty() {
            return;
        }
        if known.sent.len() >= adapter.send_frames as usize || adapter.send_delay == Span::ZERO {
            self.reap(host, ring, calendar);
        } else if !known.is_delayed {
            known.is_delayed = true;
            calendar.schedule_in(adapter.send_delay, Event::SendDue { host: host as u8, ring });
        }
    }

    fn reap(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        if !known.is_reaped && !known.sent.is_empty() {
            known.is_reaped = true;
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Reap { ring, by_interrupt: true }, calendar);
        }
    }

    /// As long as there is a task's worth, it is taken back without an interrupt.
    fn reaped(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        known.is_reaped = known.sent.len() >= REAP_BURSTS_MAX;
        if known.is_reaped {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            return self.push(host, cpu, Task::Reap { ring, by_interrupt: false }, calendar);
        }
        self.reap_when_due(host, ring, calendar);
    }

    fn written(&mut self, host: usize, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match self.setup.work.pattern {
            Pattern::Exchange => {
                self.flows[flow as usize].is_reading[host] = true;
                self.wake_reader(host, flow, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].is_blocked = true;
                self.wake_writer(flow, calendar);
            }
        }
    }

    fn read(
        &mut self,
        now: Time,
        host: usize,
        flow: u32,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.totals.read_bytes += bytes;
        if self.is_measuring {
            self.read_bytes += bytes;
        }
        match self.setup.work.pattern {
            Pattern::Exchange => {
                if host == CLIENT {
                    self.exchanged(now, flow);
                    if self.is_over {
                        return;
                    }
                }
                let cpu = self.hosts[host].cpu_of_flow(flow);
                self.push(host, cpu, Task::Write { flow }, calendar);
            }
            Pattern::Stream { .. } => {
                self.flows[flow as usize].read += bytes;
                self.flows[flow as usize].is_reading[host] = true;
                self.wake_reader(host, flow, calendar);
                self.wake_writer(flow, calendar);
            }
        }
    }

    /// An exchange ends, and the next begins.
    fn exchanged(&mut self, now: Time, flow: u32) {
        let began = std::mem::replace(&mut self.flows[flow as usize].began, now);
        if self.is_measuring {
            let took = now.since(began).unwrap_or_default();
            self.operations += 1;
            self.latencies.record(took);
            self.latency.add(took.as_ps_f64());
        }
    }

    fn wake_reader(&mut self, host: usize, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let enough = match self.setup.work.pattern {
            Pattern::Exchange => self.setup.work.message_bytes,
            Pattern::Stream { .. } => 1,
        };
        let known = &mut self.flows[flow as usize];
        if known.is_reading[host] && known.unread[host] >= enough {
            known.is_reading[host] = false;
            let cpu = self.hosts[host].cpu_of_flow(flow);
            self.push(host, cpu, Task::Read { flow }, calendar);
        }
    }

    fn wake_writer(&mut self, flow: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let Pattern::Stream { window_bytes } = self.setup.work.pattern else { return };
        let bytes = self.setup.work.message_bytes;
        let known = &mut self.flows[flow as usize];
        let has_room = known.under_way() == 0 || known.under_way() + bytes <= window_bytes;
        if known.is_blocked && has_room && !self.is_over {
            known.is_blocked = false;
            let cpu = self.hosts[CLIENT].cpu_of_flow(flow);
            self.push(CLIENT, cpu, Task::Write { flow }, calendar);
        }
    }

    fn counts(&self, host: usize, now: Time) -> Counts {
        let state = &self.hosts[host];
        let busy = |cpu: &super::cpu::Cpu| cpu.busy_until(now);
        let lock = |lock: &des::Lock<u32>| {
            let usage = lock.usage(now).ok()?;
            let (busy_ps, waited_ps, arrivals) = (usage.busy_ps, usage.waited_ps, usage.arrivals);
            Some(LockCounts { busy_ps, waited_ps, arrivals })
        };
        Counts {
            at: now,
            busy: state.cpus.iter().map(busy).fold(Span::ZERO, |sum, busy| sum + busy),
            stages: state.stages_until(now),
            wire: state.rings.wire.busy(now),
            up: state.rings.up.busy(now),
            down: state.rings.down.busy(now),
            locks: state.mapping.locks.iter().filter_map(lock).collect(),
            bill: state.mapping.bill,
        }
    }

    fn usage_until(&self, host: usize, now: Time) -> HostUsage {
        let (from, to) = (&self.before[host], self.counts(host, now));
        let elapsed = now.since(from.at).unwrap_or_default().as_ps_f64();
        let share = |from: Span, to: Span| (to.as_ps_f64() - from.as_ps_f64()) / elapsed;
        let none = LockCounts::default();
        let locks = || to.locks.iter().zip(from.locks.iter().chain(std::iter::repeat(&none)));
        let taken: u64 = locks().map(|(to, from)| to.arrivals - from.arrivals).sum();
        let waited: u128 = locks().map(|(to, from)| to.waited_ps - from.waited_ps).sum();
        let held = locks().map(|(to, from)| (to.busy_ps - from.busy_ps) as f64 / elapsed);
        HostUsage {
            busy_cpus: share(from.busy, to.busy),
            busy_cpus_by_stage: std::array::from_fn(|stage| share(from.stages[stage], to.stages[stage])),
            lock_busy_share: held.fold(0.0, f64::max),
            locked_per_second: taken as f64 * 1e12 / elapsed,
            lock_wait_mean: Span::from_ps_f64(waited as f64 / taken.max(1) as f64),
            wire_busy_share: share(from.wire, to.wire),
            link_up_busy_share: share(from.up, to.up),
            link_down_busy_share: share(from.down, to.down),
            hypercalls_per_second: (to.bill.hypercalls - from.bill.hypercalls) as f64 * 1e12 / elapsed,
            invalidations_per_second: (to.bill.invalidation_waits - from.bill.invalidation_waits) as f64
                * 1e12
                / elapsed,
            bill: self.hosts[host].mapping.bill,
            mappings_refused: self.hosts[host].mapping.refused,
        }
    }

    fn outcome(mut self, events: u64) -> Outcome {
        let seconds = self.setup.measured.as_ps_f64() / 1e12;
        let now = Time::ZERO + self.setup.warm_up + self.setup.measured;
        for state in &self.hosts {
            self.totals.mappings_left += state.mapping.bill.mappings - state.mapping.bill.unmappings;
            let pieces = state.rings.receive.iter().flat_map(|ring| &ring.pieces);
            self.totals.receive_mappings += pieces.map(|pieces| pieces.mapped.len() as u64).sum::<u64>();
        }
        let hosts =
            self.usage.take().unwrap_or_else(|| [CLIENT, SERVER].map(|host| self.usage_until(host, now)));
        Outcome {
            operations_per_second: self.operations as f64 / seconds,
            gigabits_per_second: self.read_bytes as f64 * 8e-9 / seconds,
            latency_mean: Span::from_ps_f64(self.latency.mean().unwrap_or_default()),
            latency_p99: self.latencies.quantile(0.99).unwrap_or_default(),
            hosts,
            totals: self.totals,
            events,
        }
    }
}

/// Gives each ring its buffers, before time begins.
fn fill_rings(state: &mut State) {
    for ring in 0..state.rings.receive.len() {
        let cpu = state.cpu_of_ring(ring as u32);
        for pieces in &mut state.rings.receive[ring].pieces {
            let entries = u64::from(state.setup.adapter.receive_entries);
            let mappings = entries.div_ceil(pieces.frames_per_mapping);
            let map = |_| state.mapping.map(cpu, pieces.mapping_bytes, &mut Vec::new());
            pieces.mapped = (0..mappings).filter_map(map).collect();
        }
    }
}

/// What is scheduled here is never in the past: its time is that of an event plus a span.
fn put(calendar: &mut Calendar<Event, impl Queue<Event>>, at: Time, event: Event) {
    let delay = at.since(calendar.now()).unwrap_or_default();
    calendar.schedule_in(delay, event);
}

impl Model for Machine<'_> {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        match event {
            Event::Open { flow } => {
                self.flows[flow as usize].began = now;
                let cpu = self.hosts[CLIENT].cpu_of_flow(flow);
                self.hosts[CLIENT].cpus[cpu as usize].push(Task::Write { flow });
                self.begin_if_idle(now, CLIENT, cpu, calendar);
            }
            Event::Begin { host, cpu } => self.begin_if_idle(now, host.into(), cpu, calendar),
            Event::Step { host, cpu } => self.go_on(now, host.into(), cpu, calendar),
            Event::Arrived { host, frame } => self.arrived(now, host.into(), frame, calendar),
            Event::Received { host, frame } => self.received(host.into(), frame, calendar),
            Event::Sent { host, burst } => self.sent(host.into(), burst, calendar),
            Event::ReceiveDue { host, ring } => {
                self.hosts[usize::from(host)].rings.receive[ring as usize].is_delayed = false;
                self.interrupt(host.into(), ring, calendar);
            }
            Event::SendDue { host, ring } => {
                self.hosts[usize::from(host)].rings.send[ring as usize].is_delayed = false;
                self.reap(host.into(), ring, calendar);
            }
            Event::Mark => {
                self.is_measuring = true;
                self.before = [CLIENT, SERVER].map(|host| self.counts(host, now));
            }
            Event::End => {
                (self.is_measuring, self.is_over) = (false, true);
                self.usage = Some([CLIENT, SERVER].map(|host| self.usage_until(host, now)));
            }
        }
    }
}
