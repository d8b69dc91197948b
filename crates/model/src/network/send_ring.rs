//! A send ring: a bounded number of descriptors, and the queue in front of it.

use super::descriptors::Descriptors;
use super::packet::Packet;
use crate::moderation::Moderation;
use des::Time;
use std::collections::VecDeque;

/// State of a send ring.
///
/// Linux's driver stops the ring's queue when a packet may not fit (`netif_stop_queue`), and wakes it at the end of a
/// clean-up (`netif_wake_queue`). Until then packets wait in the queueing discipline in front of it, unmapped.
#[derive(Debug)]
pub(super) struct SendRing {
    /// Descriptors that the ring has.
    entries: u32,
    /// Descriptors taken, from when a packet enters the ring until the clean-up that takes it out ends.
    in_use: u32,
    in_use_max: u32,
    /// Descriptors of the packets that the current clean-up has taken out.
    reclaimed: u32,
    /// Packets in front of the ring, which is stopped while there are any.
    pub(super) waiting: VecDeque<Packet>,
    /// A task is to move packets from the queue in front into the ring.
    pub(super) transmit_is_pending: bool,
    /// Bursts that the adapter has sent and that no clean-up has taken out.
    pub(super) sent: VecDeque<u32>,
    pub(super) cleanup_is_pending: bool,
    pub(super) moderation: Moderation,
    pub(super) descriptors: Descriptors,
    /// Times until which descriptors were read, and frames fetched. Bursts can't overtake each other.
    pub(super) descriptors_read: Time,
    pub(super) reached: Time,
}

impl SendRing {
    pub(super) fn new(entries: u32) -> Self {
        Self {
            entries,
            in_use: 0,
            in_use_max: 0,
            reclaimed: 0,
            waiting: VecDeque::new(),
            transmit_is_pending: false,
            sent: VecDeque::new(),
            cleanup_is_pending: false,
            moderation: Moderation::default(),
            descriptors: Descriptors::default(),
            descriptors_read: Time::ZERO,
            reached: Time::ZERO,
        }
    }

    /// Descriptors that are taken.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Most descriptors that were taken at a time.
    pub(super) fn in_use_max(&self) -> u32 {
        self.in_use_max
    }

    /// Whether a packet of so many descriptors fits.
    pub(super) fn has_room(&self, descriptors: u32) -> bool {
        self.in_use + descriptors <= self.entries
    }

    /// A packet enters the ring.
    pub(super) fn enter(&mut self, descriptors: u32) {
        self.in_use += descriptors;
        self.in_use_max = self.in_use_max.max(self.in_use);
    }

    /// A packet that needs no clean-up leaves the ring.
    pub(super) fn free(&mut self, descriptors: u32) {
        self.in_use -= descriptors;
    }

    /// A clean-up takes a packet out. Its descriptors are free when the clean-up ends, as in Linux's drivers, which
    /// then write the ring's new head.
    pub(super) fn reclaim(&mut self, descriptors: u32) {
        self.reclaimed += descriptors;
    }

    /// A clean-up ends.
    pub(super) fn free_reclaimed(&mut self) {
        self.in_use -= std::mem::take(&mut self.reclaimed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_free_when_the_clean_up_ends() {
        let mut ring = SendRing::new(4);
        ring.enter(3);
        assert!(ring.has_room(1) && !ring.has_room(2));
        ring.reclaim(3);
        assert!(!ring.has_room(2));
        ring.free_reclaimed();
        assert!(ring.has_room(4) && !ring.has_room(5));
    }
}
