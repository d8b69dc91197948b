//! The way of frames: from a ring over the wire to the other host's ring, and the interrupts there.

use super::{CLEAN_UP_BURSTS_MAX, Event, NetworkModel};
use crate::host::{Mapped, Mapping};
use crate::network::network_adapter::{DESCRIPTOR_BYTES, Descriptors, Frame};
use crate::network::network_host::HostState;
use crate::network::task::Task;
use crate::serial_server::schedule_at;
use des::{Calendar, Queue, Span, Time};

impl NetworkModel<'_> {
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
        let ring = &mut rings.send[ring as usize];
        ring.told = ring.told.max(reach_next(mapping, now, &mut ring.descriptors));
        schedule_at(calendar, ring.told, Event::DescriptorsRead { host: host as u8, burst });
    }

    fn ring_of_burst(&self, host: usize, burst: u32) -> u32 {
        self.rings[self.hosts[host].rings.bursts[burst].flow() as usize][host][1]
    }

    /// Without an IOMMU to wait for, schedules all frames of a burst at once: none can overtake another.
    fn schedule_all_frames(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.hosts[host].rings.bursts[burst].frames.len() as u32 {
            let asked = self.send_read_requests(now, host, burst, frame);
            self.transmit_frame(now, asked, host, burst, frame, calendar);
        }
    }

    /// The adapter has read the descriptors, and requests the first frame.
    pub(super) fn request_frames(
        &mut self,
        now: Time,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        for frame in 0..self.hosts[host].rings.bursts[burst].frames.len() as u32 {
            let asked = self.send_read_requests(now, host, burst, frame);
            schedule_at(calendar, asked, Event::ReadRequested { host: host as u8, burst, frame });
        }
    }

    /// Sends the read requests for a frame. Returns when they reach the host.
    fn send_read_requests(&mut self, now: Time, host: usize, burst: u32, frame: u32) -> Time {
        let HostState { adapter, rings, .. } = &mut self.hosts[host];
        let bytes = u64::from(rings.bursts[burst].frames[frame as usize].ip_bytes);
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
        let reached = reach(mapping, now, rings.bursts[burst].parts(frame as usize));
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
        let frames = &rings.bursts[burst].frames;
        let (sent, is_last) = (frames[frame as usize], frame as usize + 1 == frames.len());
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

    /// A frame has arrived at the adapter, which writes it to memory.
    pub(super) fn receive_frame(
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
        let ring = self.rings[frame.flow as usize][host][0];
        let HostState { adapter, rings, mapping, .. } = &mut self.hosts[host];
        let ring = &mut rings.receive[ring as usize];
        let reached = reach(mapping, now, ring.parts(&frame));
        let told = reach_next(mapping, now, &mut ring.descriptors);
        // Posted writes don't overtake each other.
        rings.written = rings.written.max(reached).max(told);
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

    /// Polls again while the ring has frames. Interrupts stay disabled until it is empty.
    pub(super) fn poll_finished(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        known.is_polled = !known.frames.is_empty();
        if known.is_polled {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.schedule_task(host, cpu, Task::Poll { ring, by_interrupt: false }, calendar);
        }
    }

    /// The last frame of a burst has left: its mappings can be cleaned up.
    pub(super) fn burst_sent(
        &mut self,
        host: usize,
        burst: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        if state.rings.bursts[burst].mapped.is_empty() {
            // An inline burst has no mapping; its clean-up is included in the path that sent it.
            state.rings.bursts.take(burst);
            return;
        }
        let ring = self.ring_of_burst(host, burst);
        self.hosts[host].rings.send[ring as usize].sent.push_back(burst);
        self.start_send_timer(host, ring, calendar);
    }

    /// Starts a clean-up of sent bursts, at once if there are enough, else after a delay.
    fn start_send_timer(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let state = &mut self.hosts[host];
        let adapter = &state.adapter;
        let known = &mut state.rings.send[ring as usize];
        if known.cleanup_is_pending || known.sent.is_empty() {
            return;
        }
        if known.sent.len() >= adapter.send_frames as usize || adapter.send_delay == Span::ZERO {
            self.raise_send_interrupt(host, ring, calendar);
        } else if let Some(timer) = known.moderation.begin() {
            calendar.schedule_in(adapter.send_delay, Event::SendTimer { host: host as u8, ring, timer });
        }
    }

    /// Raises a send ring's interrupt, unless a clean-up is pending.
    pub(super) fn raise_send_interrupt(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        if !known.cleanup_is_pending && !known.sent.is_empty() {
            known.cleanup_is_pending = true;
            known.moderation.end();
            let cpu = self.hosts[host].cpu_of_ring(ring);
            self.schedule_task(host, cpu, Task::CleanUp { ring, by_interrupt: true }, calendar);
        }
    }

    /// Cleans up again without an interrupt while a task's worth of bursts is left.
    pub(super) fn cleaned_up(
        &mut self,
        host: usize,
        ring: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let known = &mut self.hosts[host].rings.send[ring as usize];
        known.cleanup_is_pending = known.sent.len() >= CLEAN_UP_BURSTS_MAX;
        if known.cleanup_is_pending {
            let cpu = self.hosts[host].cpu_of_ring(ring);
            return self.schedule_task(host, cpu, Task::CleanUp { ring, by_interrupt: false }, calendar);
        }
        self.start_send_timer(host, ring, calendar);
    }
}

/// When the adapter has accessed all parts of the mappings.
fn reach(mapping: &mut Mapping, now: Time, parts: impl IntoIterator<Item = (Mapped, u64, u64)>) -> Time {
    let reach = |(mapped, from, bytes)| mapping.reach(now, &mapped, from, bytes);
    parts.into_iter().map(reach).fold(now, Time::max)
}

/// When the adapter has accessed the next descriptor of a ring.
fn reach_next(mapping: &mut Mapping, now: Time, descriptors: &mut Descriptors) -> Time {
    let Some(shared) = descriptors.shared else { return now };
    mapping.reach(now, &shared, descriptors.next(shared.bytes()), DESCRIPTOR_BYTES)
}
