//! Frames on their way: from the adapter over the wire to the other's ring, and who is told of them.

use super::{Event, Machine, REAP_BURSTS_MAX, put};
use crate::network::adapter::Frame;
use crate::network::cpu::Task;
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

    pub(super) fn arrived(
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

    pub(super) fn received(
        &mut self,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
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

    pub(super) fn reap_when_due(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
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
