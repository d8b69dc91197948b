//! Plans the steps of each task.

use super::sending::TRANSMIT_PACKETS_MAX;
use super::{CALLS_MAX, CLEAN_UP_BURSTS_MAX, NetworkModel, READ_BYTES_MAX};
use crate::host::{Stage, Step};
use crate::network::flow::{Pattern, Protocol};
use crate::network::frame::FrameContent;
use crate::network::packet::Packet;
use crate::network::task::{Effect, Task};

impl NetworkModel<'_> {
    pub(super) fn plan(&mut self, host: usize, cpu: u32, task: Task, steps: &mut Vec<Step<Effect>>) {
        match task {
            Task::Write { flow } => self.plan_write(host, cpu, flow, steps),
            Task::Read { flow } => self.plan_read(host, cpu, flow, steps),
            Task::Poll { ring, by_interrupt } => self.plan_poll(host, ring, by_interrupt, steps),
            Task::CleanUp { ring, by_interrupt } => self.plan_clean_up(host, ring, by_interrupt, steps),
            Task::Transmit { ring } => {
                steps.push(Step::Then(Effect::TransmitNext { ring, left: TRANSMIT_PACKETS_MAX }));
            }
        }
    }

    /// Adds steps to a CPU's task, ahead of those that are left.
    pub(super) fn insert_steps(
        &mut self,
        host: usize,
        cpu: u32,
        plan: impl FnOnce(&mut Self, &mut Vec<Step<Effect>>),
    ) {
        let mut steps = std::mem::take(&mut self.steps);
        plan(self, &mut steps);
        self.hosts[host].processors.insert_steps(cpu, &mut steps);
        self.steps = steps;
    }

    fn plan_write(&mut self, host: usize, cpu: u32, flow: u32, steps: &mut Vec<Step<Effect>>) {
        let path = self.hosts[host].paths.write;
        let message_bytes = self.setup.work.message_bytes;
        let writes = self.writes_at_once(flow);
        steps.push(self.stack_step(host, path * writes as f64));
        let mut bytes = message_bytes * writes;
        self.plan_copy(host, [cpu, cpu], bytes, steps);
        if let Pattern::Stream { .. } = self.setup.work.pattern {
            self.measured.operations += if self.is_measuring { writes } else { 0 };
            bytes = self.gathered(flow, bytes);
        }
        self.totals.written_bytes += bytes;
        let packet_bytes = match self.setup.work.protocol {
            Protocol::Udp => self.framing.payload_bytes,
            Protocol::Tcp { segment_bytes_max } => segment_bytes_max,
        };
        for from in (0..bytes).step_by(packet_bytes as usize) {
            let bytes = (bytes - from).min(packet_bytes) as u32;
            let packet = Packet { flow, bytes, what: FrameContent::Data };
            let frames = self.framing.frames(&packet);
            steps.push(self.stack_step(host, self.hosts[host].paths.send * f64::from(frames)));
            steps.push(Step::Then(Effect::Transmit { packet }));
        }
        steps.push(Step::Then(Effect::Written { flow }));
    }

    /// Number of writes that a task plans: up to a frame's worth of a stream.
    fn writes_at_once(&self, flow: u32) -> u64 {
        let work = &self.setup.work;
        let gathered = self.flows[flow as usize].gathered;
        match work.pattern {
            Pattern::Exchange => 1,
            Pattern::Stream { .. } if work.is_nodelay => 1,
            Pattern::Stream { .. } => {
                let left = self.framing.payload_bytes.saturating_sub(gathered);
                left.div_ceil(work.message_bytes).clamp(1, CALLS_MAX)
            }
        }
    }

    /// Messages shorter than a frame are gathered until they fill whole frames (Nagle's algorithm), unless they are to
    /// be sent at once. Returns the bytes to send now.
    fn gathered(&mut self, flow: u32, bytes: u64) -> u64 {
        let enough = if self.setup.work.is_nodelay { 1 } else { self.framing.payload_bytes };
        let known = &mut self.flows[flow as usize];
        known.gathered += bytes;
        if known.gathered < enough {
            return 0;
        }
        known.written += known.gathered;
        std::mem::take(&mut known.gathered)
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

    fn plan_clean_up(&mut self, host: usize, ring: u32, by_interrupt: bool, steps: &mut Vec<Step<Effect>>) {
        if by_interrupt {
            steps.push(self.stack_step(host, self.hosts[host].paths.interrupt));
        }
        steps.push(Step::Then(Effect::CleanUpNext { ring, left: CLEAN_UP_BURSTS_MAX }));
    }

    /// Whether received data is acknowledged by frames of its own. In an exchange the answer carries it.
    pub(super) fn acknowledges(&self) -> bool {
        self.setup.work.pattern != Pattern::Exchange
    }

    /// Copies bytes on CPU `by` that CPU `of` allocated.
    pub(super) fn plan_copy(
        &self,
        host: usize,
        [by, of]: [u32; 2],
        bytes: u64,
        steps: &mut Vec<Step<Effect>>,
    ) {
        let span = self.hosts[host].copy(by, of, bytes);
        steps.extend(span.map(|span| Step::Work(span, Stage::Stack)));
    }

    /// A step of instructions in the network stack.
    pub(super) fn stack_step(&self, host: usize, instructions: f64) -> Step<Effect> {
        Step::Work(self.hosts[host].processors.setup.time_of(instructions), Stage::Stack)
    }
}
