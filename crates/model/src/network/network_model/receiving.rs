//! The way of received frames: into a ring's buffer, and from there to their sockets by polls.

use super::{Event, NetworkModel, POLL_FRAMES_MAX};
use crate::host::Step;
use crate::network::frame::{Frame, FrameContent};
use crate::network::network_host::HostState;
use crate::network::packet::Packet;
use crate::network::task::{Effect, Task};
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Span, Time};

impl NetworkModel<'_> {
    fn receive_ring_of_flow(&self, host: usize, flow: u32) -> u32 {
        self.rings[flow as usize][host][0]
    }

    /// A frame has arrived at the adapter. Without a free entry in its receive ring it waits, and all behind it, as
    /// Ethernet's flow control (802.3x) has it: a pause stops all traffic of a link.
    pub(super) fn receive_frame(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.hosts[host].rings.arrived += 1;
        if self.hosts[host].rings.held.is_empty() && self.accept(host, frame) {
            return self.store_frame(now, host, frame, calendar);
        }
        let rings = &mut self.hosts[host].rings;
        rings.held.push_back(frame);
        // Can't fail: simulated time never goes back.
        let _ = rings.paused.set(now, 1);
    }

    /// Takes an entry of its receive ring for a frame. Returns whether one was free.
    fn accept(&mut self, host: usize, frame: Frame) -> bool {
        let ring = self.receive_ring_of_flow(host, frame.flow);
        self.hosts[host].rings.receive[ring as usize].accept()
    }

    /// Entries are free again: frames that waited for them are accepted in order of arrival.
    fn release_held(&mut self, now: Time, host: usize, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        while let Some(frame) = self.hosts[host].rings.held.front().copied() {
            if !self.accept(host, frame) {
                return;
            }
            self.hosts[host].rings.held.pop_front();
            self.store_frame(now, host, frame, calendar);
        }
        // Can't fail: simulated time never goes back.
        let _ = self.hosts[host].rings.paused.set(now, 0);
    }

    /// The adapter writes an accepted frame to memory.
    fn store_frame(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let HostState { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let written = adapter.link.write_bytes(0, u64::from(frame.ip_bytes));
        let there = rings.up.occupy(now, adapter.link.time_of(written));
        let host = host as u8;
        if mapping.is_at_hand() {
            schedule_at(calendar, there + adapter.latency, Event::FrameInMemory { host, frame });
        } else {
            schedule_at(calendar, there, Event::FrameAtHost { host, frame });
        }
    }

    /// A received frame and its descriptor reach the host, and their addresses are translated.
    pub(super) fn write_frame(
        &mut self,
        now: Time,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = self.receive_ring_of_flow(host, frame.flow);
        let HostState { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let ring = &mut rings.receive[ring as usize];
        let reached = mapping.reach_all(now, ring.parts(&frame));
        let completed = ring.descriptors.reach(mapping, now, 1);
        // Posted writes don't overtake each other.
        rings.written = rings.written.max(reached).max(completed);
        schedule_at(
            calendar,
            rings.written + adapter.latency,
            Event::FrameInMemory { host: host as u8, frame },
        );
    }

    /// A frame is in memory: an interrupt follows at once, or after the moderation's delay.
    pub(super) fn frame_in_memory(
        &mut self,
        host: usize,
        frame: Frame,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        self.totals.received_frames += 1;
        let ring = self.receive_ring_of_flow(host, frame.flow);
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let known = &mut state.rings.receive[ring as usize];
        known.frames.push_back(frame);
        if known.is_polled {
            return;
        }
        let is_enough = known.frames.len() >= adapter.receive_frames as usize;
        if is_enough || adapter.receive_delay == Span::ZERO {
            self.raise_receive_interrupt(host, ring, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar
                .schedule_in(adapter.receive_delay, Event::ReceiveTimer { host: host as u8, ring, timer });
        }
    }

    /// Raises a receive ring's interrupt, unless the ring is being polled.
    pub(super) fn raise_receive_interrupt(
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
            self.schedule_task(host, cpu, Task::Poll { ring, by_interrupt: true }, calendar);
        }
    }

    /// Processes the next frame of a ring, until there is none or the poll has taken enough.
    pub(super) fn receive_next(&mut self, host: usize, cpu: u32, ring: u32, left: u32) {
        self.insert_steps(host, cpu, |machine, steps| {
            let known = &mut machine.hosts[host].rings.receive[ring as usize];
            let next = if left > 0 { known.take() } else { None };
            let Some(frame) = next else {
                return steps.push(Step::Then(Effect::FinishPoll { ring }));
            };
            machine.plan_frame(host, cpu, ring, frame, steps);
            steps.push(Step::Then(Effect::ReceiveNext { ring, left: left - 1 }));
        });
    }

    /// The steps that process a received frame.
    fn plan_frame(&mut self, host: usize, cpu: u32, ring: u32, frame: Frame, steps: &mut Vec<Step<Effect>>) {
        let Frame { flow, bytes, .. } = frame;
        if frame.what == FrameContent::Acknowledgement {
            // The cost of an acknowledgement is part of the path of the frame that it acknowledges.
            return steps.push(Step::Then(Effect::Acknowledged { flow, bytes }));
        }
        steps.push(self.stack_step(host, self.hosts[host].paths.receive));
        self.plan_buffers(host, cpu, ring, frame.ethernet_bytes(), steps);
        if self.acknowledges() {
            self.flows[flow as usize].to_acknowledge += u64::from(bytes);
            self.hosts[host].rings.receive[ring as usize].poll.streams.push(flow);
        }
        steps.push(Step::Then(Effect::Deliver { flow, bytes }));
    }

    /// Unmaps a frame's buffers, if it was the last to use them, and records which kinds must be replaced.
    fn plan_buffers(&mut self, host: usize, cpu: u32, ring: u32, bytes: u64, steps: &mut Vec<Step<Effect>>) {
        if bytes <= self.hosts[host].adapter.copied_bytes {
            return self.plan_copy(host, [cpu, cpu], bytes, steps);
        }
        let HostState { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let known = &mut rings.receive[ring as usize];
        if adapter.keeps_buffers {
            return known.keep();
        }
        for (kind, pieces) in known.pieces.iter_mut().enumerate() {
            pieces.used += 1;
            if pieces.used < pieces.frames_per_mapping {
                continue;
            }
            pieces.used = 0;
            if let Some(mapped) = pieces.mapped.pop_front() {
                mapping.unmap(cpu, mapped, steps);
            }
            known.poll.unmapped.push(kind);
        }
    }

    /// The end of a poll: one acknowledgement for each stream, and new buffers.
    pub(super) fn finish_poll(&mut self, host: usize, cpu: u32, ring: u32) {
        self.insert_steps(host, cpu, |machine, steps| {
            let poll = &mut machine.hosts[host].rings.receive[ring as usize].poll;
            let (streams, unmapped) = (std::mem::take(&mut poll.streams), std::mem::take(&mut poll.unmapped));
            for flow in streams {
                let bytes = std::mem::take(&mut machine.flows[flow as usize].to_acknowledge) as u32;
                let packet = Packet { flow, bytes, what: FrameContent::Acknowledgement };
                steps.extend((bytes > 0).then_some(Step::Then(Effect::Transmit { packet })));
            }
            let HostState { rings, mapping, .. } = &mut machine.hosts[host];
            for kind in unmapped {
                let pieces = &mut rings.receive[ring as usize].pieces[kind];
                pieces.mapped.extend(mapping.map(cpu, pieces.mapping_bytes, steps));
            }
            steps.push(Step::Then(Effect::Polled { ring }));
        });
    }

    /// The ring has its buffers again. Polls again while it has frames; interrupts stay disabled until it is empty.
    pub(super) fn poll_finished(
        &mut self,
        now: Time,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        known.refill();
        known.is_polled = !known.frames.is_empty();
        if known.is_polled {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.schedule_task(host, cpu, Task::Poll { ring, by_interrupt: false }, calendar);
        }
        self.release_held(now, host, calendar);
    }

    /// The effects of a poll's task that begins.
    pub(super) fn plan_poll(
        &mut self,
        host: usize,
        ring: u32,
        by_interrupt: bool,
        steps: &mut Vec<Step<Effect>>,
    ) {
        if by_interrupt {
            steps.push(self.stack_step(host, self.hosts[host].paths.interrupt));
        }
        steps.push(Step::Then(Effect::ReceiveNext { ring, left: POLL_FRAMES_MAX }));
    }
}
