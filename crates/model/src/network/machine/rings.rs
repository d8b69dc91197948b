//! Frames on their way: from the adapter over the wire to the other's ring, and who is told of them.

use super::{Event, Machine, REAP_BURSTS_MAX};
use crate::host::{Mapped, Mapping};
use crate::network::adapter::{DESCRIPTOR_BYTES, Descriptors, Frame};
use crate::network::host::State;
use crate::network::task::Task;
use crate::serial::put;
use des::{Calendar, Queue, Span, Time};

impl Machine<'_> {
    /// The adapter fetches frames and puts them on the wire.
    pub(super) fn send(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let wire = self.setup.wire;
        let told = self.told(now, host, burst);
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let rings = &mut state.rings;
        let burst_sent = &rings.bursts[burst];
        let (mut sent, mut from) = (now, 0);
        for frame in &burst_sent.frames {
            let bytes = u64::from(frame.ip_bytes);
            let asked = rings.up.take(told, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)));
            let reached = reach(&mut state.mapping, asked, || burst_sent.parts(frame, from));
            from += u64::from(frame.bytes);
            let fetched =
                rings.down.take(reached, adapter.link.time_of(adapter.link.completion_bytes(0, bytes)));
            sent = rings.wire.take(fetched + adapter.latency, wire.time_of(bytes));
            self.totals.sent_frames += 1;
            let peer = 1 - host as u8;
            put(calendar, sent + wire.latency, Event::Arrived { host: peer, frame: *frame });
        }
        put(calendar, sent, Event::Sent { host: host as u8, burst });
    }

    /// When the adapter knows of a burst: it has read the descriptor, whose translation it may have had to wait for.
    fn told(&mut self, now: Time, host: usize, burst: u32) -> Time {
        let state = &mut self.hosts[host];
        if state.mapping.is_at_hand() {
            return now;
        }
        let Some(frame) = state.rings.bursts[burst].frames.first() else { return now };
        let ring = self.rings[frame.flow as usize][host][1];
        reach_next(&mut state.mapping, now, &mut state.rings.send[ring as usize].descriptors)
    }

    pub(super) fn arrived(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let written = adapter.link.write_bytes(0, u64::from(frame.ip_bytes));
        let there = state.rings.up.take(now, adapter.link.time_of(written));
        let latency = adapter.latency;
        let there = self.in_memory(there, host, &frame);
        put(calendar, there + latency, Event::Received { host: host as u8, frame });
    }

    /// When a frame and the descriptor that tells of it are in memory, once they are at the host.
    fn in_memory(&mut self, now: Time, host: usize, frame: &Frame) -> Time {
        let State { mapping, rings, .. } = &mut self.hosts[host];
        if mapping.is_at_hand() {
            return now;
        }
        let ring = &mut rings.receive[self.rings[frame.flow as usize][host][0] as usize];
        let written = reach(mapping, now, || ring.parts(frame));
        let told = reach_next(mapping, now, &mut ring.descriptors);
        // No write passes another.
        rings.written = rings.written.max(written).max(told);
        rings.written
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
        } else if !known.is_delayed {
            known.is_delayed = true;
            calendar.schedule_in(adapter.receive_delay, Event::ReceiveDue { host: host as u8, ring });
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
        let Some(flow) = state.rings.bursts[burst].frames.first().map(|frame| frame.flow) else {
            return;
        };
        let ring = self.rings[flow as usize][host][1];
        state.rings.send[ring as usize].sent.push_back(burst);
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
        } else if !known.is_delayed {
            known.is_delayed = true;
            calendar.schedule_in(adapter.send_delay, Event::SendDue { host: host as u8, ring });
        }
    }

    pub(super) fn reap(&mut self, host: usize, ring: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        if !known.is_reaped && !known.sent.is_empty() {
            known.is_reaped = true;
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
fn reach<Parts: IntoIterator<Item = (Mapped, u64, u64)>>(
    mapping: &mut Mapping,
    now: Time,
    parts: impl FnOnce() -> Parts,
) -> Time {
    if mapping.is_at_hand() {
        return now;
    }
    let reach = |(mapped, from, bytes)| mapping.reach(now, &mapped, from, bytes);
    parts().into_iter().map(reach).fold(now, Time::max)
}

/// When it has reached the next descriptor of a ring.
fn reach_next(mapping: &mut Mapping, now: Time, descriptors: &mut Descriptors) -> Time {
    let Some(shared) = descriptors.shared else { return now };
    mapping.reach(now, &shared, descriptors.next(shared.bytes()), DESCRIPTOR_BYTES)
}
