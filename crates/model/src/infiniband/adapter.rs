//! Nodes and their adapters.

use super::bus::{Bus, Lanes};
use super::cache::{Cache, CacheShape};
use super::icm::{Layout, Profile, Table};
use super::message::{NONE, Place};
use super::wire::Wire;
use crate::serial_server::SerialServer;
use des::{Span, Stream};
use std::collections::VecDeque;

/// Nodes, all alike, behind one switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The host of each.
    pub host: Host,
    /// The adapter of each.
    pub adapter: Adapter,
    /// Where adapters keep their contexts.
    pub contexts: Place,
    /// What is between them.
    pub wire: Wire,
    /// Of all random choices.
    pub seed: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Between the adapter and memory.
    pub bus: Bus,
    /// What a read of the adapter takes besides the bus: there, at memory, and back. A write, and a doorbell, take half of it.
    pub read: Span,
    /// What a CPU takes to put work into a queue and ring the doorbell.
    pub post: Span,
    /// What it takes to see that something has come.
    pub poll: Span,
}

/// An adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// What sending takes of its engine for each message.
    pub send: Span,
    /// It begins no two closer to each other.
    pub send_gap: Span,
    /// What receiving takes of its engine for each packet.
    pub receive: Span,
    /// It begins no two closer to each other.
    pub receive_gap: Span,
    /// Messages at most whose contexts and descriptors are being fetched; later ones wait, in order.
    pub works_max: u32,
    /// Packets that are read from memory, or wait to be sent, at most.
    pub packets_max: u32,
    /// Contexts that are being fetched at most.
    pub fetches_max: u32,
    /// Its cache of contexts.
    pub cache: CacheShape,
    /// How its context memory is divided.
    pub profile: Profile,
    /// What a read of its own memory takes besides the transfer.
    pub memory: Span,
    /// Bytes that this memory gives or takes in a second.
    pub memory_bytes_per_second: f64,
}

/// Bytes of a descriptor in a queue.
pub(super) const WQE_BYTES: u64 = 64;
/// Bytes of a completion.
pub(super) const CQE_BYTES: u64 = 32;
/// Bytes that a doorbell is written with.
pub(super) const DOORBELL_BYTES: u64 = 8;

/// A queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Qp {
    pub(super) node: u16,
    /// Of its node.
    pub(super) number: u32,
    /// The other end, a queue pair of any node.
    pub(super) peer: u32,
    pub(super) cq: u32,
    /// The region that its queues are in.
    pub(super) region: u32,
    /// Messages whose data it sends, in order.
    pub(super) first: u32,
    pub(super) last: u32,
    /// It is in its adapter's line of those that have something to send.
    pub(super) is_in_line: bool,
}

/// A completion queue of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cq {
    pub(super) region: u32,
}

/// A region's place in the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    /// Of its protection.
    pub(super) context: u64,
    /// The first of its translations' segments.
    pub(super) segment: u64,
}

/// A node in use.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) lanes: Lanes,
    pub(super) cache: Cache,
    pub(super) memory: SerialServer,
    pub(super) send: SerialServer,
    pub(super) receive: SerialServer,
    /// To the switch, and from there.
    pub(super) port: SerialServer,
    pub(super) egress: SerialServer,
    pub(super) fetching: u32,
    pub(super) waiting_fetches: VecDeque<u32>,
    pub(super) packets: u32,
    /// Messages that are being begun, and those that wait for it.
    pub(super) beginning: u32,
    pub(super) doorbells: VecDeque<u32>,
    /// Queue pairs with something to send.
    pub(super) line: VecDeque<u32>,
    pub(super) cqs: Vec<Cq>,
    pub(super) regions: Vec<Region>,
    pub(super) qps: u32,
    segments: u64,
    pub(super) fetched_bytes: u64,
    pub(super) written_back_bytes: u64,
}

impl Node {
    pub(super) fn new(setup: &Setup, number: u16) -> Self {
        Self {
            lanes: Lanes::new(setup.host.bus),
            cache: Cache::new(setup.adapter.cache, Stream::new(setup.seed, 1 << 40 | u64::from(number))),
            memory: SerialServer::default(),
            send: SerialServer::default(),
            receive: SerialServer::default(),
            port: SerialServer::default(),
            egress: SerialServer::default(),
            fetching: 0,
            waiting_fetches: VecDeque::new(),
            packets: 0,
            beginning: 0,
            doorbells: VecDeque::new(),
            line: VecDeque::new(),
            cqs: Vec::new(),
            regions: Vec::new(),
            qps: 0,
            segments: 0,
            fetched_bytes: 0,
            written_back_bytes: 0,
        }
    }

    /// Registers memory.
    pub(super) fn register(&mut self, bytes: u64) -> u32 {
        let taken = Layout::segments_of(bytes);
        // As the driver's buddy allocator has them: at multiples of their number.
        let segment = self.segments.next_multiple_of(taken);
        self.segments = segment + taken;
        let context = self.regions.len() as u64;
        self.regions.push(Region { context, segment });
        (self.regions.len() - 1) as u32
    }

    /// Segments of translations that are taken.
    pub(super) fn segments(&self) -> u64 {
        self.segments
    }

    /// Makes a completion queue.
    pub(super) fn completion_queue(&mut self) -> u32 {
        let region = self.register(QUEUE_BYTES);
        self.cqs.push(Cq { region });
        (self.cqs.len() - 1) as u32
    }

    /// Makes a queue pair whose other end is still to come.
    pub(super) fn queue_pair(&mut self, node: u16, cq: u32) -> Qp {
        let region = self.register(QUEUE_BYTES);
        self.qps += 1;
        let number = self.qps - 1;
        Qp { node, number, peer: NONE, cq, region, first: NONE, last: NONE, is_in_line: false }
    }
}

/// Bytes of the queues of a queue pair, or of a completion queue: up to a segment of pages.
const QUEUE_BYTES: u64 = 32 << 10;

/// Where an object of a node is in its context memory.
pub(super) fn object(layout: &Layout, profile: &Profile, table: Table, number: u64) -> (u64, u64) {
    (layout.object(table, number), profile.object_bytes(table))
}

impl Adapter {
    /// How long its memory takes for bytes.
    pub(super) fn transfer(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * 1e12 / self.memory_bytes_per_second)
    }
}
