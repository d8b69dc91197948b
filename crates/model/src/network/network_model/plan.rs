//! Plans the steps of each task.

use super::{CALLS_MAX, CLEAN_UP_BURSTS_MAX, HEADER_BYTES, NetworkModel, POLL_FRAMES_MAX, READ_BYTES_MAX};
use crate::host::{Stage, Step};
use crate::network::flow::{Pattern, Protocol, TCP_HEADER_BYTES};
use crate::network::network_adapter::{Burst, Frame, FrameContent};
use crate::network::task::{Effect, Task};

impl NetworkModel<'_> {
    pub(super) fn plan(&mut self, host: usize, cpu: u32, task: Task, steps: &mut Vec<Step<Effect>>) {
        match task {
            Task::Write { flow } => self.plan_write(host, cpu, flow, steps),
            Task::Read { flow } => self.plan_read(host, cpu, flow, steps),
            Task::Poll { ring, by_interrupt } => self.plan_poll(host, cpu, ring, by_interrupt, steps),
            Task::CleanUp { ring, by_interrupt } => self.plan_clean_up(host, cpu, ring, by_interrupt, steps),
        }
    }

    fn plan_write(&mut self, host: usize, cpu: u32, flow: u32, steps: &mut Vec<Step<Effect>>) {
        let path = self.hosts[host].paths.write;
        let message_bytes = self.setup.work.message_bytes;
        let writes = self.writes_at_once(flow);
        steps.push(self.stack_step(host, path * writes as f64));
        let mut bytes = message_bytes * writes;
        self.plan_copy(host, [cpu, cpu], bytes, steps);
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

    /// Number of writes that a task plans: up to a frame's worth of a stream.
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

    /// Messages shorter than a frame are gathered until they fill whole frames (Nagle's algorithm). Returns the bytes
    /// to send now.
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

    /// Bytes of a stream in a full frame.
    fn frame_payload(&self) -> u64 {
        self.setup.wire.mtu_bytes - self.setup.work.protocol.header_bytes()
    }

    fn plan_datagram(&mut self, host: usize, cpu: u32, flow: u32, bytes: u64, steps: &mut Vec<Step<Effect>>) {
        let path = self.hosts[host].paths.send;
        for frame in self.frames(flow, bytes) {
            steps.push(self.stack_step(host, path));
            self.plan_frame(host, cpu, frame, steps);
        }
    }

    fn plan_segments(
        &mut self,
        host: usize,
        cpu: u32,
        flow: u32,
        bytes: u64,
        most: u64,
        steps: &mut Vec<Step<Effect>>,
    ) {
        let path = self.hosts[host].paths.send;
        for from in (0..bytes).step_by(most as usize) {
            let segment = (bytes - from).min(most);
            let frames = self.frames(flow, segment);
            steps.push(self.stack_step(host, path * frames.len() as f64));
            let is_inline = frames.len() == 1 && self.is_inline(host, &frames[0]);
            let mapped = if is_inline { Vec::new() } else { self.segment_pieces(host, segment) };
            self.plan_burst(host, cpu, frames, &mapped, steps);
        }
    }

    /// Pieces of memory mapped for a segment: headers, and data fragments.
    fn segment_pieces(&self, host: usize, segment: u64) -> Vec<u64> {
        let most = self.hosts[host].adapter.fragment_bytes.unwrap_or(segment);
        let pieces = (0..segment).step_by(most as usize).map(|from| (segment - from).min(most));
        std::iter::once(HEADER_BYTES).chain(pieces).collect()
    }

    /// Splits bytes into frames.
    fn frames(&self, flow: u32, bytes: u64) -> Vec<Frame> {
        let (payload, headers) = (self.frame_payload(), self.setup.work.protocol.header_bytes());
        let frame = |bytes: u64| Frame {
            flow,
            bytes: bytes as u32,
            ip_bytes: (bytes + headers) as u32,
            what: FrameContent::Data,
        };
        (0..bytes).step_by(payload as usize).map(|from| frame((bytes - from).min(payload))).collect()
    }

    /// Sends a frame with one mapping, or inline.
    fn plan_frame(&mut self, host: usize, cpu: u32, frame: Frame, steps: &mut Vec<Step<Effect>>) {
        let whole = [frame.ethernet_bytes()];
        let mapped = if self.is_inline(host, &frame) { &[][..] } else { &whole };
        self.plan_burst(host, cpu, vec![frame], mapped, steps);
    }

    /// Whether a frame is sent inline in its descriptor.
    fn is_inline(&self, host: usize, frame: &Frame) -> bool {
        frame.ethernet_bytes() <= self.hosts[host].adapter.inline_bytes
    }

    /// Maps a burst and submits it to the adapter.
    fn plan_burst(
        &mut self,
        host: usize,
        cpu: u32,
        frames: Vec<Frame>,
        mapped_bytes: &[u64],
        steps: &mut Vec<Step<Effect>>,
    ) {
        let state = &mut self.hosts[host];
        let mapped = mapped_bytes.iter().filter_map(|bytes| state.mapping.map(cpu, *bytes, steps)).collect();
        let burst = state.rings.bursts.put(Burst { frames, mapped });
        steps.push(Step::Then(Effect::Send { burst }));
    }

    fn plan_read(&mut self, host: usize, cpu: u32, flow: u32, steps: &mut Vec<Step<Effect>>) {
        let path = self.hosts[host].paths.read;
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
        steps.push(self.stack_step(host, path * reads as f64));
        let received_on = self.hosts[host].cpu_of_ring(self.rings[flow as usize][host][0]);
        self.plan_copy(host, [cpu, received_on], bytes, steps);
        steps.push(Step::Then(Effect::Read { flow, bytes }));
    }

    fn plan_poll(
        &mut self,
        host: usize,
        cpu: u32,
        ring: u32,
        by_interrupt: bool,
        steps: &mut Vec<Step<Effect>>,
    ) {
        let paths = self.hosts[host].paths;
        if by_interrupt {
            steps.push(self.stack_step(host, paths.interrupt));
        }
        let waiting = &mut self.hosts[host].rings.receive[ring as usize].frames;
        let taken: Vec<Frame> = waiting.drain(..waiting.len().min(POLL_FRAMES_MAX)).collect();
        let mut new = Vec::new();
        let known = &mut self.hosts[host].rings.receive[ring as usize];
        known.taken = known.taken.saturating_sub(taken.len() as u64);
        for frame in &taken {
            let Frame { flow, bytes, .. } = *frame;
            match frame.what {
                FrameContent::Data => {
                    steps.push(self.stack_step(host, paths.receive));
                    self.plan_buffers(host, cpu, ring, frame.ethernet_bytes(), &mut new, steps);
                    steps.push(Step::Then(Effect::Deliver { flow, bytes }));
                }
                // The cost of an acknowledgement is part of the path of the frame that it acknowledges.
                FrameContent::Acknowledgement => steps.push(Step::Then(Effect::Acknowledged { flow, bytes })),
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

    /// Unmaps a frame's buffers, if it was the last to use them, and records which kinds must be replaced.
    fn plan_buffers(
        &mut self,
        host: usize,
        cpu: u32,
        ring: u32,
        bytes: u64,
        new: &mut Vec<usize>,
        steps: &mut Vec<Step<Effect>>,
    ) {
        if bytes <= self.hosts[host].adapter.copied_bytes {
            return self.plan_copy(host, [cpu, cpu], bytes, steps);
        }
        let state = &mut self.hosts[host];
        if state.adapter.keeps_buffers {
            return state.rings.receive[ring as usize].keep();
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

    /// Sends one acknowledgement per stream for all frames of a poll.
    fn plan_acknowledgements(
        &mut self,
        host: usize,
        cpu: u32,
        taken: &[Frame],
        steps: &mut Vec<Step<Effect>>,
    ) {
        if self.setup.work.pattern == Pattern::Exchange {
            return;
        }
        let data = || taken.iter().filter(|frame| frame.what == FrameContent::Data);
        for frame in data() {
            self.flows[frame.flow as usize].to_acknowledge += u64::from(frame.bytes);
        }
        for flow in data().map(|frame| frame.flow) {
            let bytes = std::mem::take(&mut self.flows[flow as usize].to_acknowledge) as u32;
            if bytes == 0 {
                continue;
            }
            let ip_bytes = TCP_HEADER_BYTES as u32;
            let frame = Frame { flow, bytes, ip_bytes, what: FrameContent::Acknowledgement };
            self.plan_frame(host, cpu, frame, steps);
        }
    }

    fn plan_clean_up(
        &mut self,
        host: usize,
        cpu: u32,
        ring: u32,
        by_interrupt: bool,
        steps: &mut Vec<Step<Effect>>,
    ) {
        if by_interrupt {
            let interrupt = self.hosts[host].paths.interrupt;
            steps.push(self.stack_step(host, interrupt));
        }
        let state = &mut self.hosts[host];
        let sent = &mut state.rings.send[ring as usize].sent;
        let taken: Vec<u32> = sent.drain(..sent.len().min(CLEAN_UP_BURSTS_MAX)).collect();
        for burst in taken {
            for mapped in state.rings.bursts.take(burst).mapped {
                state.mapping.unmap(cpu, mapped, steps);
            }
        }
        steps.push(Step::Then(Effect::CleanedUp { ring }));
    }

    /// Copies bytes on CPU `by` that CPU `of` allocated.
    fn plan_copy(&self, host: usize, [by, of]: [u32; 2], bytes: u64, steps: &mut Vec<Step<Effect>>) {
        let span = self.hosts[host].copy(by, of, bytes);
        steps.extend(span.map(|span| Step::Work(span, Stage::Stack)));
    }

    /// A step of instructions in the network stack.
    fn stack_step(&self, host: usize, instructions: f64) -> Step<Effect> {
        Step::Work(self.hosts[host].processors.setup.time_of(instructions), Stage::Stack)
    }
}
