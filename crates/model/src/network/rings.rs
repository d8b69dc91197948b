//! State of an adapter: its rings, its link and its wire.

use super::burst::Burst;
use super::frame::Frame;
use super::network_adapter::NetworkAdapter;
use super::receive_ring::ReceiveRing;
use super::send_ring::SendRing;
use crate::serial_server::SerialServer;
use crate::slab::Slab;
use des::{Time, TimeAverage};
use std::collections::VecDeque;

/// State of an adapter.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) receive: Vec<ReceiveRing>,
    pub(super) send: Vec<SendRing>,
    pub(super) bursts: Slab<Burst>,
    /// Frames in front of the adapter, in order of arrival: the first one's receive ring is full. Ethernet's flow
    /// control stops all frames, whatever their ring.
    pub(super) held: VecDeque<Frame>,
    /// 1 while frames are held.
    pub(super) paused: TimeAverage,
    /// Number of send rings with packets in front of them.
    pub(super) stopped: TimeAverage,
    /// The link, towards memory and from memory.
    pub(super) up: SerialServer,
    pub(super) down: SerialServer,
    /// The wire, in the direction from this adapter.
    pub(super) wire: SerialServer,
    /// When the latest received frame is in memory, if a translation delays it.
    pub(super) written: Time,
    /// Packets handed to the driver, and frames that arrived, since the start.
    pub(super) packets: u64,
    pub(super) arrived: u64,
}

impl Rings {
    pub(super) fn new(adapter: &NetworkAdapter) -> Self {
        Self {
            receive: (0..adapter.receive_rings).map(|_| ReceiveRing::new(adapter)).collect(),
            send: (0..adapter.send_rings).map(|_| SendRing::new(adapter.send_entries)).collect(),
            bursts: Slab::default(),
            held: VecDeque::new(),
            paused: TimeAverage::default(),
            stopped: TimeAverage::default(),
            up: SerialServer::default(),
            down: SerialServer::default(),
            wire: SerialServer::default(),
            written: Time::ZERO,
            packets: 0,
            arrived: 0,
        }
    }

    /// Packets in front of all send rings.
    pub(super) fn packets_waiting(&self) -> u64 {
        self.send.iter().map(|ring| ring.waiting.len() as u64).sum()
    }

    /// Descriptors that packets have in all send rings.
    pub(super) fn descriptors_in_use(&self) -> u64 {
        self.send.iter().map(|ring| u64::from(ring.in_use())).sum()
    }

    /// Entries that frames have in all receive rings.
    pub(super) fn entries_in_use(&self) -> u64 {
        self.receive.iter().map(|ring| u64::from(ring.in_use())).sum()
    }
}
