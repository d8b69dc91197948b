//! Frames on their way: from the adapter over the wire to the other's ring, and who is told of them.

use super::{Event, Machine, REAP_BURSTS_MAX};
use crate::host::{Mapped, Mapping};
use crate::network::adapter::{DESCRIPTOR_BYTES, Descriptors, Frame};
use crate::network::host::State;
use crate::network::task::Task;
use crate::serial::put;
use des::{Calendar, Queue, Span, Time};

impl Machine<'_> {
    /// The adapter reads the descriptor of a burst, whose translation it may have to wait for.
    pub(super) fn send(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.hosts[host].mapping.is_at_hand() {
            return self.fetch_at_hand(now, host, burst, calendar);
        }
        let ring = self.ring_of_burst(host, burst);
        let State { mapping, rings, .. } = &mut self.hosts[host];
        let ring = &mut rings.send[ring as usize];
        ring.told = ring.told.max(reach_next(mapping, now, &mut ring.descriptors));
        put(calendar, ring.told, Event::Told { host: host as u8, burst });
    }

    fn ring_of_burst(&self, host: usize, burst: u32) -> u32 {
        self.rings[self.hosts[host].rings.bursts[burst].flow() as usize][host][1]
    }

    /// Where all is at hand, each frame's way is known when it begins: none can pass another.
    fn fetch_at_hand(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.hosts[host].rings.bursts[burst].frames.len() as u32 {
            let asked = self.ask(now, host, burst, frame);
            self.fetched(now, asked, host, burst, frame, calendar);
        }
    }

    /// The adapter knows of a burst, and asks for its frames.
    pub(super) fn told(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.hosts[host].rings.bursts[burst].frames.len() as u32 {
            let asked = self.ask(now, host, burst, frame);
            put(calendar, asked, Event::Asked { host: host as u8, burst, frame });
        }
    }

    /// When the requests for a frame are with its host.
    fn ask(&mut self, now: Time, host: usize, burst: u32, frame: u32) -> Time {
        let State { adapter, rings, .. } = &mut self.hosts[host];
        let bytes = u64::from(rings.bursts[burst].frames[frame as usize].ip_bytes);
        rings.up.take(now, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)))
    }

    /// They are translated, and find their memory.
    pub(super) fn asked(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        frame: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = self.ring_of_burst(host, burst);
        let State { mapping, rings, .. } = &mut self.hosts[host];
        let reached = reach(mapping, now, rings.bursts[burst].parts(frame as usize));
        let ring = &mut rings.send[ring as usize];
        ring.reached = ring.reached.max(reached);
        put(calendar, ring.reached, Event::Reached { host: host as u8, burst, frame });
    }

    /// A frame comes over the link once its memory is reached, and leaves by the wire.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        reached: Time,
        host: usize,
        burst: u32,
        frame: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let wire = self.setup.wire;
        let State { adapter, rings, .. } = &mut self.hosts[host];
        let frames = &rings.bursts[burst].frames;
        let (sent, is_last) = (frames[frame as usize], frame as usize + 1 == frames.len());
        let bytes = u64::from(sent.ip_bytes);
        let carried = adapter.link.time_of(adapter.link.completion_bytes(0, bytes));
        let fetched = rings.down.take_at(now, reached, carried);
        let over = rings.wire.take_at(now, fetched + adapter.latency, wire.time_of(bytes));
        self.totals.sent_frames += 1;
        put(calendar, over + wire.latency, Event::Arrived { host: 1 - host as u8, frame: sent });
        if is_last {
            put(calendar, over, Event::Sent { host: host as u8, burst });
        }
    }

    pub(super) fn arrived(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let State { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let written = adapter.link.write_bytes(0, u64::from(frame.ip_bytes));
        let there = rings.up.take(now, adapter.link.time_of(written));
        let host = host as u8;
        if mapping.is_at_hand() {
            put(calendar, there + adapter.latency, Event::Received { host, frame });
        } else {
            put(calendar, there, Event::Crossed { host, frame });
        }
    }

    /// A frame, and the descriptor that tells of it, are with the host, and find their memory.
    pub(super) fn crossed(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = self.rings[frame.flow as usize][host][0];
        let State { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let ring = &mut rings.receive[ring as usize];
        let reached = reach(mapping, now, ring.parts(&frame));
        let told = reach_next(mapping, now, &mut ring.descriptors);
        // No write passes another.
        rings.written = rings.written.max(reached).max(told);
        put(calendar, rings.written + adapter.latency, Event::Received { host: host as u8, frame });
    }

    pub(super) fn received(
        &mut self,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.totals.received_frames += 1;
        let ring = self.rings[frame.flow as usize][host][0];
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let known = &mut state.rings.receive[ring as usize];
        known.frames.push_back(frame);
        if known.is_polled {
            return;
        }
        let is_enough = known.frames.len() >= adapter.receive_frames as usize;
        if is_enough || adapter.receive_delay == Span::ZERO {
            self.interrupt(host, ring, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.receive_delay, Event::ReceiveDue { host: host as u8, ring, timer });
        }
    }

    pub(super) fn interrupt(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        if !known.is_polled && !known.frames.is_empty() {
            known.is_polled = true;
            known.moderation.end();
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Poll { ring, by_interrupt: true }, calendar);
        }
    }

    /// As long as there are frames, the ring is polled and raises no interrupt.
    pub(super) fn polled(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        known.is_polled = !known.frames.is_empty();
        if known.is_polled {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Poll { ring, by_interrupt: false }, calendar);
        }
    }

    pub(super) fn sent(
        &mut self,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        if state.rings.bursts[burst].mapped.is_empty() {
            // Nothing is to be taken back but its place; what that costs is in the path that sent it.
            state.rings.bursts.take(burst);
            return;
        }
        let ring = self.ring_of_burst(host, burst);
        self.hosts[host].rings.send[ring as usize].sent.push_back(burst);
        self.reap_when_due(host, ring, calendar);
    }

    fn reap_when_due(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let known = &mut state.rings.send[ring as usize];
        if known.is_reaped || known.sent.is_empty() {
            return;
        }
        if known.sent.len() >= adapter.send_frames as usize || adapter.send_delay == Span::ZERO {
            self.reap(host, ring, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.send_delay, Event::SendDue { host: host as u8, ring, timer });
        }
    }

    pub(super) fn reap(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        if !known.is_reaped && !known.sent.is_empty() {
            known.is_reaped = true;
            known.moderation.end();
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.push(host, cpu, Task::Reap { ring, by_interrupt: true }, calendar);
        }
    }

    /// As long as there is a task's worth, it is taken back without an interrupt.
    pub(super) fn reaped(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        known.is_reaped = known.sent.len() >= REAP_BURSTS_MAX;
        if known.is_reaped {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            return self.push(host, cpu, Task::Reap { ring, by_interrupt: false }, calendar);
        }
        self.reap_when_due(host, ring, calendar);
    }
}

/// When an adapter has reached all parts of what is mapped.
fn reach(mapping: &mut Mapping, now: Time, parts: impl IntoIterator<Item = (Mapped, u64, u64)>) -> Time {
    let reach = |(mapped, from, bytes)| mapping.reach(now, &mapped, from, bytes);
    parts.into_iter().map(reach).fold(now, Time::max)
}

/// When it has reached the next descriptor of a ring.
fn reach_next(mapping: &mut Mapping, now: Time, descriptors: &mut Descriptors) -> Time {
    let Some(shared) = descriptors.shared else { return now };
    mapping.reach(now, &shared, descriptors.next(shared.bytes()), DESCRIPTOR_BYTES)
}
