//! The queue that an IOMMU takes its commands from: one after the other, as many as it has room for.

use crate::serial_server::SerialServer;
use des::{Span, Time};
use std::collections::VecDeque;

/// An IOMMU's queue of commands, in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InvalidationQueue {
    /// Commands that it has room for, two for each invalidation: what to forget, and a word to be written once that is done. At
    /// least two.
    pub slots: u32,
    /// What forgetting all of a domain takes the IOMMU; a range takes the mapping layer's `invalidation`.
    pub flush: Span,
    /// A CPU that waits looks for that word as often; 0 for always.
    pub poll: Span,
    /// The lock is held until the wait is over, and not just until the commands are in the queue.
    pub waits_with_lock: bool,
}

/// Of an invalidation: the command and the word behind it.
const COMMANDS: u32 = 2;

/// The queue at work.
#[derive(Debug)]
pub(super) struct Commands {
    setup: InvalidationQueue,
    /// When each of the invalidations in it will be over, the next first.
    ends: VecDeque<Time>,
    /// The IOMMU, as far as it does them.
    hardware: SerialServer,
    /// When what a CPU has put into it will be over.
    awaited: Vec<Time>,
}

impl Commands {
    pub(super) fn new(setup: InvalidationQueue, cpus: u32) -> Self {
        let awaited = vec![Time::ZERO; cpus as usize];
        Self { setup, ends: VecDeque::new(), hardware: SerialServer::default(), awaited }
    }

    /// Puts an invalidation that takes the IOMMU so long behind the others; if there is no room, how long until there is.
    pub(super) fn submit(&mut self, now: Time, cpu: u32, takes: Span) -> Result<(), Span> {
        while self.ends.pop_front_if(|end| *end <= now).is_some() {}
        let room = (self.setup.slots / COMMANDS).max(1) as usize;
        if let Some(place) = self.ends.len().checked_sub(room) {
            return Err(self.ends[place].since(now).unwrap_or_default());
        }
        let end = self.hardware.occupy(now, takes);
        self.ends.push_back(end);
        self.awaited[cpu as usize] = end;
        Ok(())
    }

    /// How long a CPU waits for what it has put into it.
    pub(super) fn wait(&self, now: Time, cpu: u32) -> Span {
        let left = self.awaited[cpu as usize].since(now).unwrap_or_default();
        match self.setup.poll.as_ps() {
            0 => left,
            poll => Span::from_ps(left.as_ps().div_ceil(poll) * poll),
        }
    }

    /// How long the IOMMU was busy with them up to now.
    pub(super) fn busy(&self, now: Time) -> Span {
        self.hardware.busy(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::from_ps(ns * 1_000)
    }

    fn commands(slots: u32, poll_ns: u64) -> Commands {
        let (flush, poll) = (Span::ZERO, Span::from_ns(poll_ns));
        Commands::new(InvalidationQueue { slots, flush, poll, waits_with_lock: false }, 4)
    }

    #[test]
    fn each_waits_for_those_ahead_of_it() {
        let (mut queue, takes) = (commands(256, 0), Span::from_ns(300));
        for cpu in 0..3 {
            assert_eq!(queue.submit(at(100), cpu, takes), Ok(()));
        }
        assert_eq!([0, 1, 2].map(|cpu| queue.wait(at(100), cpu).as_ps()), [300_000, 600_000, 900_000]);
        assert_eq!([0, 2].map(|cpu| queue.wait(at(500), cpu).as_ps()), [0, 500_000]);
        assert_eq!([at(100), at(500), at(2_000)].map(|now| queue.busy(now).as_ps()), [0, 400_000, 900_000]);
    }

    #[test]
    fn what_has_no_room_waits_until_there_is() {
        let (mut queue, takes) = (commands(4, 0), Span::from_ns(300));
        assert_eq!([0, 1].map(|cpu| queue.submit(at(0), cpu, takes)), [Ok(()); 2]);
        assert_eq!(queue.submit(at(100), 2, takes), Err(Span::from_ns(200)));
        assert_eq!(queue.submit(at(300), 2, takes), Ok(()));
        assert_eq!(queue.wait(at(300), 2), Span::from_ns(600));
    }

    #[test]
    fn who_looks_seldom_waits_longer() {
        let mut queue = commands(256, 1_000);
        queue.submit(at(0), 0, Span::from_ns(300)).unwrap();
        assert_eq!([0, 299, 300].map(|now| queue.wait(at(now), 0).as_ps()), [1_000_000, 1_000_000, 0]);
    }
}
