//! Paths: a port of an adapter, a cable, and a port of the array.

use super::array_adapter::{ArrayAdapter, time_of};
use crate::serial_server::SerialServer;
use des::{Span, Time};

/// A port of an adapter, counted over all adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// A cable and the data on it.
#[derive(Debug, Default)]
pub(super) struct Cable {
    out: SerialServer,
    home: SerialServer,
    is_down: bool,
    /// Number of links lost so far, which identifies the current link.
    link: u32,
    /// When the latest link was lost.
    lost_at: Time,
}

impl Cable {
    /// Sends data to the array. Returns when the last byte has left.
    pub(super) fn send(&mut self, now: Time, bytes: u64, adapter: &ArrayAdapter) -> Time {
        self.out.occupy(now, time_of(bytes, adapter.port_bytes_per_second))
    }

    /// Sends data from the array. Returns when the last byte has left.
    pub(super) fn receive(&mut self, now: Time, bytes: u64, adapter: &ArrayAdapter) -> Time {
        self.home.occupy(now, time_of(bytes, adapter.port_bytes_per_second))
    }

    /// The current link; `None` if the cable is pulled.
    pub(super) fn link(&self) -> Option<u32> {
        (!self.is_down).then_some(self.link)
    }

    /// The current link, or else the latest one.
    pub(super) fn last_link(&self) -> u32 {
        self.link
    }

    /// When the cable was pulled last.
    pub(super) fn pulled_at(&self) -> Time {
        self.lost_at
    }

    /// Pulls the cable. Data still to be sent is lost.
    pub(super) fn pull(&mut self, now: Time) {
        if self.is_down {
            return;
        }
        (self.is_down, self.lost_at) = (true, now);
        self.out.stop(now);
        self.home.stop(now);
    }

    /// Plugs the cable in again: a new link.
    pub(super) fn plug(&mut self) {
        self.link += u32::from(self.is_down);
        self.is_down = false;
    }

    /// Busy time up to now, to the array and from the array.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        [self.out.busy(now), self.home.busy(now)]
    }
}
