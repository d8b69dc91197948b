//! A path: a port of an adapter, its cable, and a port of the array.

use super::adapter::{Adapter, time_of};
use crate::serial::Serial;
use des::{Span, Time};

/// A port of an adapter, counted over all adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// A cable with what is on it.
#[derive(Debug, Default)]
pub(super) struct Cable {
    out: Serial,
    home: Serial,
    is_down: bool,
    /// Links that there were before: what one carried is lost with it.
    link: u32,
    /// When the last was.
    lost_at: Time,
}

impl Cable {
    /// When data has left for the array.
    pub(super) fn send(&mut self, now: Time, bytes: u64, adapter: &Adapter) -> Time {
        self.out.take(now, time_of(bytes, adapter.port_bytes_per_second))
    }

    /// When data from the array has left.
    pub(super) fn receive(&mut self, now: Time, bytes: u64, adapter: &Adapter) -> Time {
        self.home.take(now, time_of(bytes, adapter.port_bytes_per_second))
    }

    /// The link that there is.
    pub(super) fn link(&self) -> Option<u32> {
        (!self.is_down).then_some(self.link)
    }

    /// The link that there is, or was last.
    pub(super) fn last_link(&self) -> u32 {
        self.link
    }

    pub(super) fn lost_at(&self) -> Time {
        self.lost_at
    }

    /// What it had to carry still it never does.
    pub(super) fn pull(&mut self, now: Time) {
        if self.is_down {
            return;
        }
        (self.is_down, self.lost_at) = (true, now);
        self.out.stop(now);
        self.home.stop(now);
    }

    pub(super) fn plug(&mut self) {
        self.link += u32::from(self.is_down);
        self.is_down = false;
    }

    /// How long it was busy up to now, to the array and from it.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        [self.out.busy(now), self.home.busy(now)]
    }
}
