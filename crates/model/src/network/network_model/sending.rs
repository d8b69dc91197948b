//! The way of packets: through the queue in front of a send ring, the ring, the link and the wire.

use super::{Event, NetworkModel};
use crate::host::Step;
use crate::network::burst::Burst;
use crate::network::flow::Pattern;
use crate::network::frame::FrameContent;
use crate::network::network_host::HostState;
use crate::network::packet::Packet;
use crate::network::task::{Effect, Task};
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Time};

/// Most packets that a task moves into a ring (`dev_tx_weight`).
pub(super) const TRANSMIT_PACKETS_MAX: u32 = 64;

impl NetworkModel<'_> {
    pub(super) fn send_ring_of_flow(&self, host: usize, flow: u32) -> u32 {
        self.rings[flow as usize][host][1]
    }

    pub(super) fn ring_of_burst(&self, host: usize, burst: u32) -> u32 {
        self.send_ring_of_flow(host, self.hosts[host].rings.bursts[burst].packet.flow)
    }

    /// Hands a packet to the driver. If the ring is stopped or too full, it waits in front of it, as in Linux's
    /// queueing discipline: unmapped, and whatever CPU it comes from.
    pub(super) fn transmit(&mut self, now: Time, host: usize, cpu: u32, packet: Packet) {
        let ring = self.send_ring_of_flow(host, packet.flow);
        let HostState { adapter, rings, .. } = &mut self.hosts[host];
        rings.packets += 1;
        let known = &mut rings.send[ring as usize];
        if known.waiting.is_empty() && known.has_room(self.framing.descriptors(&packet, adapter)) {
            return self.enter_ring(host, cpu, ring, packet);
        }
        known.waiting.push_back(packet);
        if known.waiting.len() == 1 {
            self.ring_stopped(now, host, true);
        }
    }

    /// Counts a send ring that stops or starts again.
    fn ring_stopped(&mut self, now: Time, host: usize, is_stopped: bool) {
        let stopped = &mut self.hosts[host].rings.stopped;
        let level = if is_stopped { stopped.level() + 1 } else { stopped.level().saturating_sub(1) };
        // Can't fail: simulated time never goes back.
        let _ = stopped.set(now, level);
    }

    /// Maps a packet on the CPU that moves it into the ring, and rings the doorbell.
    fn enter_ring(&mut self, host: usize, cpu: u32, ring: u32, packet: Packet) {
        let framing = self.framing;
        self.insert_steps(host, cpu, |machine, steps| {
            let HostState { adapter, rings, mapping, .. } = &mut machine.hosts[host];
            let descriptors = framing.descriptors(&packet, adapter);
            rings.send[ring as usize].enter(descriptors);
            let mapped =
                framing.pieces(&packet, adapter).filter_map(|bytes| mapping.map(cpu, bytes, steps)).collect();
            let is_inline = framing.is_inline(&packet, adapter);
            let burst = rings.bursts.put(Burst { packet, mapped, descriptors, is_inline });
            steps.push(Step::Then(Effect::Send { burst }));
            if is_inline {
                // Its data is in the descriptor, so the driver needs the socket's memory no longer.
                steps.extend(machine.freed_step(&packet));
            }
        });
    }

    /// The step after which the driver has freed a packet: only a stream's data counts against a window.
    pub(super) fn freed_step(&self, packet: &Packet) -> Option<Step<Effect>> {
        let is_stream = matches!(self.setup.work.pattern, Pattern::Stream { .. });
        let Packet { flow, bytes, what } = *packet;
        (is_stream && what == FrameContent::Data).then_some(Step::Then(Effect::Freed { flow, bytes }))
    }

    /// A clean-up has freed descriptors: a task moves waiting packets into the ring, if the first one fits.
    pub(super) fn wake_ring(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if !self.hosts[host].rings.send[ring as usize].transmit_is_pending && self.next_fits(host, ring) {
            self.hosts[host].rings.send[ring as usize].transmit_is_pending = true;
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.schedule_task(host, cpu, Task::Transmit { ring }, calendar);
        }
    }

    /// Whether the first packet in front of a ring fits.
    fn next_fits(&self, host: usize, ring: u32) -> bool {
        let HostState { adapter, rings, .. } = &self.hosts[host];
        let known = &rings.send[ring as usize];
        let next = known.waiting.front();
        next.is_some_and(|packet| known.has_room(self.framing.descriptors(packet, adapter)))
    }

    /// Moves the next waiting packet into the ring, until none fits or the task has moved enough.
    pub(super) fn transmit_next(
        &mut self,
        now: Time,
        host: usize,
        cpu: u32,
        (ring, left): (u32, u32),
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let fits = self.next_fits(host, ring);
        let known = &mut self.hosts[host].rings.send[ring as usize];
        let next = if fits && left > 0 { known.waiting.pop_front() } else { None };
        let Some(packet) = next else {
            known.transmit_is_pending = false;
            return self.wake_ring(host, ring, calendar);
        };
        if known.waiting.is_empty() {
            self.ring_stopped(now, host, false);
        }
        let again = Step::Then(Effect::TransmitNext { ring, left: left - 1 });
        self.insert_steps(host, cpu, |_, steps| steps.push(again));
        self.enter_ring(host, cpu, ring, packet);
    }

    /// The adapter reads the descriptors of a burst, which may wait for a translation.
    pub(super) fn send(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        if self.hosts[host].mapping.is_at_hand() {
            return self.schedule_all_frames(now, host, burst, calendar);
        }
        let ring = self.ring_of_burst(host, burst);
        let HostState { mapping, rings, .. } = &mut self.hosts[host];
        let number = rings.bursts[burst].descriptors;
        let ring = &mut rings.send[ring as usize];
        let read = ring.descriptors.reach(mapping, now, number);
        ring.descriptors_read = ring.descriptors_read.max(read);
        schedule_at(calendar, ring.descriptors_read, Event::DescriptorsRead { host: host as u8, burst });
    }

    /// Frames of a burst.
    fn frames(&self, host: usize, burst: u32) -> u32 {
        self.framing.frames(&self.hosts[host].rings.bursts[burst].packet)
    }

    /// Without an IOMMU to wait for, schedules all frames of a burst at once: none can overtake another.
    fn schedule_all_frames(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.frames(host, burst) {
            let requested = self.send_read_requests(now, host, burst, frame);
            self.transmit_frame(now, requested, host, burst, frame, calendar);
        }
    }

    /// The adapter has read the descriptors, and requests the frames.
    pub(super) fn request_frames(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.frames(host, burst) {
            let requested = self.send_read_requests(now, host, burst, frame);
            schedule_at(calendar, requested, Event::ReadRequested { host: host as u8, burst, frame });
        }
    }

    /// Sends the read requests for a frame. Returns when they reach the host.
    fn send_read_requests(&mut self, now: Time, host: usize, burst: u32, frame: u32) -> Time {
        let HostState { adapter, rings, .. } = &mut self.hosts[host];
        let bytes = u64::from(self.framing.frame(&rings.bursts[burst].packet, frame).ip_bytes);
        rings.up.occupy(now, adapter.link.time_of(adapter.link.read_request_bytes(0, bytes)))
    }

    /// Translates the requests' addresses.
    pub(super) fn translate_requests(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        frame: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let ring = self.ring_of_burst(host, burst);
        let HostState { mapping, rings, .. } = &mut self.hosts[host];
        let parts = rings.bursts[burst].parts(frame, &self.framing);
        let reached = mapping.reach_all(now, parts);
        let ring = &mut rings.send[ring as usize];
        ring.reached = ring.reached.max(reached);
        schedule_at(calendar, ring.reached, Event::MemoryAnswers { host: host as u8, burst, frame });
    }

    /// Transfers a frame over the link once memory answers, and then onto the wire.
    pub(super) fn transmit_frame(
        &mut self,
        now: Time,
        reached: Time,
        host: usize,
        burst: u32,
        frame: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let wire = self.setup.wire;
        let HostState { adapter, rings, .. } = &mut self.hosts[host];
        let packet = &rings.bursts[burst].packet;
        let is_last = frame + 1 == self.framing.frames(packet);
        let sent = self.framing.frame(packet, frame);
        let bytes = u64::from(sent.ip_bytes);
        let carried = adapter.link.time_of(adapter.link.completion_bytes(0, bytes));
        let fetched = rings.down.occupy_from(now, reached, carried);
        let over = rings.wire.occupy_from(now, fetched + adapter.latency, wire.time_of(bytes));
        self.totals.sent_frames += 1;
        schedule_at(calendar, over + wire.latency, Event::FrameArrives { host: 1 - host as u8, frame: sent });
        if is_last {
            schedule_at(calendar, over, Event::BurstSent { host: host as u8, burst });
        }
    }
}
