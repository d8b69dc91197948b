//! The way of messages from a doorbell to the wire.

use super::{Application, Event, InfinibandModel, Job, MemoryKind, NONE, Stage, schedule_at};
use crate::infiniband::hca::WQE_BYTES;
use crate::infiniband::message::{Buffer, Verb};
use des::{Calendar, Queue, Span, Time};

impl<A: Application> InfinibandModel<A> {
    /// Starts posted work requests, up to the adapter's limit.
    pub(super) fn begin_works(
        &mut self,
        now: Time,
        number: u16,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        loop {
            let node = &mut self.nodes[usize::from(number)];
            if node.beginning >= self.setup.adapter.works_max {
                return;
            }
            let Some(message) = node.doorbells.pop_front() else { return };
            node.beginning += 1;
            self.start(now, Stage::Begin, message, number, calendar);
        }
    }

    /// A work request's descriptor has been read.
    fn has_begun(&mut self, now: Time, number: u16, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        self.nodes[usize::from(number)].beginning -= 1;
        self.begin_works(now, number, calendar);
    }

    /// A job has its contexts, and its engine has processed it.
    pub(super) fn worked(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = self.jobs[number];
        match job.stage {
            // The descriptor is in the queue, which is in host memory.
            Stage::Begin | Stage::Accept => {
                self.read_memory(now, number, MemoryKind::Host, 0, WQE_BYTES, calendar);
            }
            Stage::Request => {
                self.jobs.free(number);
                let asking = self.messages[job.message].work.qp;
                self.queue_data(now, self.qps[asking as usize].peer, job.message, calendar);
            }
            Stage::Packet => {
                let from = self.source(&job);
                self.read_memory(now, number, from.place, from.offset + job.offset, job.bytes, calendar);
            }
            Stage::WritePacket => self.place(now, number, calendar),
            Stage::Notify => self.notify(now, number, calendar),
            Stage::Complete => self.complete(now, number, calendar),
        }
    }

    /// Host memory answers a job's read.
    pub(super) fn answered(
        &mut self,
        now: Time,
        number: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = self.jobs[number];
        let (address, bytes) = match job.stage {
            Stage::Packet => (self.source(&job).offset + job.offset, job.bytes),
            _ => (0, WQE_BYTES),
        };
        let here = self.nodes[usize::from(job.node)].lanes.completion(now, address, bytes);
        schedule_at(calendar, here, Event::Read(number));
    }

    /// The data that a job reads has arrived.
    pub(super) fn read(&mut self, now: Time, number: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let job = self.jobs[number];
        let work = self.messages[job.message].work;
        match job.stage {
            Stage::Begin if work.verb == Verb::Read => {
                let bytes = self.setup.wire.request_bytes();
                self.transmit(now, number, Stage::Request, bytes, calendar);
                self.has_begun(now, job.node, calendar);
            }
            Stage::Begin => {
                self.jobs.free(number);
                self.queue_data(now, work.qp, job.message, calendar);
                self.has_begun(now, job.node, calendar);
            }
            Stage::Packet => {
                let is_first_of_rdma = job.offset == 0 && work.verb == Verb::Write;
                let bytes = self.setup.wire.data_bytes(job.bytes, is_first_of_rdma);
                self.transmit(now, number, Stage::Packet, bytes, calendar);
            }
            Stage::Accept => {
                let job = &mut self.jobs[number];
                // The job has its queue pair's context already.
                (job.stage, job.step) = (Stage::WritePacket, 1);
                self.advance(now, number, calendar);
            }
            Stage::Request | Stage::WritePacket | Stage::Notify | Stage::Complete => {}
        }
    }

    /// Queues a message's data on its queue pair.
    fn queue_data(
        &mut self,
        now: Time,
        qp: u32,
        message: u32,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let queue = &mut self.qps[qp as usize];
        let (node, last) = (queue.node, std::mem::replace(&mut queue.last, message));
        if last == NONE {
            queue.first = message;
        } else {
            self.messages[last].next = message;
        }
        self.queue_for_sending(qp);
        self.begin_packets(now, node, calendar);
    }

    /// Queues a queue pair for its next packet, once.
    fn queue_for_sending(&mut self, qp: u32) {
        let queue = &mut self.qps[qp as usize];
        if !std::mem::replace(&mut queue.is_in_line, true) {
            self.nodes[usize::from(queue.node)].line.push_back(qp);
        }
    }

    /// Starts packets of the queue pairs in turn, up to the adapter's limit.
    fn begin_packets(&mut self, now: Time, node: u16, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        loop {
            let at = &mut self.nodes[usize::from(node)];
            if at.packets >= self.setup.adapter.packets_max {
                return;
            }
            let Some(qp) = at.line.pop_front() else { return };
            at.packets += 1;
            self.begin_packet(now, qp, calendar);
        }
    }

    /// Starts the next packet of a queue pair's first message.
    fn begin_packet(&mut self, now: Time, qp: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let queue = &mut self.qps[qp as usize];
        queue.is_in_line = false;
        let (node, number) = (queue.node, queue.first);
        let message = &mut self.messages[number];
        let (offset, left) = (message.begun, message.work.bytes - message.begun);
        let bytes = left.min(self.setup.wire.mtu_bytes);
        message.begun += bytes;
        if bytes == left {
            queue.first = std::mem::replace(&mut message.next, NONE);
            if queue.first == NONE {
                queue.last = NONE;
            }
        }
        if queue.first != NONE {
            self.queue_for_sending(qp);
        }
        let job = Job {
            stage: Stage::Packet,
            message: number,
            node,
            step: 0,
            is_owner: false,
            next: NONE,
            offset,
            bytes,
        };
        let job = self.jobs.put(job);
        self.advance(now, job, calendar);
    }

    /// Sends a job's packet on the wire, or loops it back within the node.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        number: u32,
        stage: Stage,
        bytes: u64,
        calendar: &mut Calendar<Event, impl Queue<Event>>,
    ) {
        let job = &mut self.jobs[number];
        (job.stage, job.step) = (stage, 0);
        let taken = if self.is_loopback(number) { Span::ZERO } else { self.setup.wire.time_of(bytes) };
        let sent = self.nodes[usize::from(self.jobs[number].node)].port.occupy(now, taken);
        schedule_at(calendar, sent, Event::Sent(number));
    }

    /// The last byte of a packet has left. The cut-through switch forwards it as soon as its output port is free.
    pub(super) fn sent(&mut self, now: Time, number: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let job = self.jobs[number];
        let is_loop = self.is_loopback(number);
        let to = self.destination(&job);
        let bytes = self.wire_bytes(&job);
        self.totals.sent_bytes += if is_loop { 0 } else { bytes };
        let mut arrived = now;
        if !is_loop {
            let wire = &self.setup.wire;
            let taken = wire.time_of(bytes);
            // Its first byte arrived one packet duration earlier.
            let first = Time::from_ps((now + wire.latency).as_ps().saturating_sub(taken.as_ps()));
            arrived = self.nodes[usize::from(to)].egress.occupy(first, taken);
        }
        self.jobs[number].node = to;
        schedule_at(calendar, arrived, Event::Arrived(number));
        if job.stage == Stage::Packet {
            self.nodes[usize::from(job.node)].packets -= 1;
            self.begin_packets(now, job.node, calendar);
        }
    }

    /// Bytes on the wire of a job's packet.
    fn wire_bytes(&self, job: &Job) -> u64 {
        let wire = &self.setup.wire;
        let verb = self.messages[job.message].work.verb;
        match job.stage {
            Stage::Request => wire.request_bytes(),
            Stage::Packet => wire.data_bytes(job.bytes, job.offset == 0 && verb == Verb::Write),
            _ => wire.acknowledgement_bytes(),
        }
    }

    /// The node that a job's packet goes to.
    fn destination(&self, job: &Job) -> u16 {
        let [asking, other] = self.ends(job.message);
        match job.stage {
            Stage::Packet => self.data_ends(job.message)[1].node,
            Stage::Complete => asking.node,
            _ => other.node,
        }
    }

    /// Whether sender and receiver of a job's message are the same node.
    fn is_loopback(&self, number: u32) -> bool {
        let [asking, other] = self.ends(self.jobs[number].message);
        asking.node == other.node
    }

    /// The buffer that a packet's data is read from.
    fn source(&self, job: &Job) -> Buffer {
        let work = self.messages[job.message].work;
        if work.verb == Verb::Read { work.remote } else { work.local }
    }
}
