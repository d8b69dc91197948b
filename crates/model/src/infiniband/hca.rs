//! Nodes and their InfiniBand adapters.

use super::bus::{Bus, Lanes};
use super::cache::{Cache, CacheShape};
use super::icm::{Layout, Profile, Table};
use super::message::{MemoryKind, NONE};
use super::wire::Wire;
use crate::serial_server::SerialServer;
use des::{Span, Stream};
use std::collections::VecDeque;

/// Equal nodes connected by one switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Each node's host.
    pub host: HcaHost,
    /// Each node's adapter.
    pub adapter: Hca,
    /// The memory that holds the adapters' contexts.
    pub contexts: MemoryKind,
    /// Cables and switch.
    pub wire: Wire,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Parameters of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HcaHost {
    /// The bus between adapter and memory.
    pub bus: Bus,
    /// Latency of a memory read by the adapter, without the bus. A write or a doorbell takes half of it.
    pub read: Span,
    /// CPU time to post work and ring the doorbell.
    pub post: Span,
    /// CPU time to detect a completion or received data.
    pub poll: Span,
}

/// Parameters of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Hca {
    /// Time of the send engine per message.
    pub send: Span,
    /// Least time between two messages of the send engine.
    pub send_gap: Span,
    /// Time of the receive engine per packet.
    pub receive: Span,
    /// Least time between two packets of the receive engine.
    pub receive_gap: Span,
    /// Most messages whose contexts and descriptors are being fetched; later ones wait in order.
    pub works_max: u32,
    /// Most packets being read from memory or waiting to be sent.
    pub packets_max: u32,
    /// Most context fetches in flight.
    pub fetches_max: u32,
    /// The context cache.
    pub cache: CacheShape,
    /// Layout of the context memory.
    pub profile: Profile,
    /// Read latency of the adapter's own memory, without the transfer.
    pub memory: Span,
    /// Bandwidth of the adapter's own memory.
    pub memory_bytes_per_second: f64,
}

/// Bytes of a work queue entry.
pub(super) const WQE_BYTES: u64 = 64;
/// Bytes of a completion queue entry.
pub(super) const CQE_BYTES: u64 = 32;
/// Bytes of a doorbell write.
pub(super) const DOORBELL_BYTES: u64 = 8;

/// A queue pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Qp {
    pub(super) node: u16,
    /// Number on its node.
    pub(super) number: u32,
    /// The queue pair at the other end of the connection.
    pub(super) peer: u32,
    pub(super) cq: u32,
    /// The memory region of its queues.
    pub(super) region: u32,
    /// Messages whose data is to be sent, in order.
    pub(super) first: u32,
    pub(super) last: u32,
    /// It is in its adapter's list of queue pairs with data to send.
    pub(super) is_in_line: bool,
}

/// A completion queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cq {
    pub(super) region: u32,
}

/// Index of a memory region's entries in the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Region {
    /// Index of its protection entry.
    pub(super) context: u64,
    /// First segment of its translations.
    pub(super) segment: u64,
}

/// State of a node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) lanes: Lanes,
    pub(super) cache: Cache,
    pub(super) memory: SerialServer,
    pub(super) send: SerialServer,
    pub(super) receive: SerialServer,
    /// The link to the switch, and from the switch.
    pub(super) port: SerialServer,
    pub(super) egress: SerialServer,
    pub(super) fetching: u32,
    pub(super) waiting_fetches: VecDeque<u32>,
    pub(super) packets: u32,
    /// Messages being started, and those that wait for that.
    pub(super) beginning: u32,
    pub(super) doorbells: VecDeque<u32>,
    /// Queue pairs with data to send.
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

    /// Registers a memory region.
    pub(super) fn register(&mut self, bytes: u64) -> u32 {
        let taken = Layout::segments_of(bytes);
        // Like the driver's buddy allocator: aligned to the size.
        let segment = self.segments.next_multiple_of(taken);
        self.segments = segment + taken;
        let context = self.regions.len() as u64;
        self.regions.push(Region { context, segment });
        (self.regions.len() - 1) as u32
    }

    /// Number of translation segments in use.
    pub(super) fn segments(&self) -> u64 {
        self.segments
    }

    /// Creates a completion queue.
    pub(super) fn completion_queue(&mut self) -> u32 {
        let region = self.register(QUEUE_BYTES);
        self.cqs.push(Cq { region });
        (self.cqs.len() - 1) as u32
    }

    /// Creates a queue pair that is not connected yet.
    pub(super) fn queue_pair(&mut self, node: u16, cq: u32) -> Qp {
        let region = self.register(QUEUE_BYTES);
        self.qps += 1;
        let number = self.qps - 1;
        Qp { node, number, peer: NONE, cq, region, first: NONE, last: NONE, is_in_line: false }
    }
}

/// Bytes of the queues of a queue pair, or of a completion queue: at most a segment of pages.
const QUEUE_BYTES: u64 = 32 << 10;

/// Address and size of an object in a node's context memory.
pub(super) fn object(layout: &Layout, profile: &Profile, table: Table, number: u64) -> (u64, u64) {
    (layout.object(table, number), profile.object_bytes(table))
}

impl Hca {
    /// Transfer time of the adapter's own memory.
    pub(super) fn transfer(&self, bytes: u64) -> Span {
        Span::from_ps_f64(bytes as f64 * 1e12 / self.memory_bytes_per_second)
    }
}
