//! The IOMMU's invalidation queue.

use crate::serial_server::SerialServer;
use des::{Span, Time};
use std::collections::VecDeque;

/// Parameters of an invalidation queue in memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InvalidationQueue {
    /// Number of entries, at least two. An invalidation takes two: the command, and a wait descriptor that writes a
    /// status word.
    pub slots: u32,
    /// Duration of a domain-wide invalidation. That of a range is the mapping's `invalidation`.
    pub flush: Span,
    /// Interval at which a waiting CPU polls the status word; 0 for continuously.
    pub poll: Span,
    /// Whether the queue's lock is held until the wait is over, instead of only until the commands are in the queue.
    pub waits_with_lock: bool,
}

/// Entries of an invalidation: command and wait descriptor.
const COMMANDS: u32 = 2;

/// State of the queue.
#[derive(Debug)]
pub(super) struct Commands {
    setup: InvalidationQueue,
    /// End of each invalidation in the queue, in order.
    ends: VecDeque<Time>,
    /// The IOMMU, which executes them one at a time.
    hardware: SerialServer,
    /// Per CPU: end of the last invalidation it submitted.
    awaited: Vec<Time>,
}

impl Commands {
    pub(super) fn new(setup: InvalidationQueue, cpus: u32) -> Self {
        let awaited = vec![Time::ZERO; cpus as usize];
        Self { setup, ends: VecDeque::new(), hardware: SerialServer::default(), awaited }
    }

    /// Submits an invalidation. If the queue is full, returns the time until it has space.
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

    /// Time until this CPU's invalidations are done.
    pub(super) fn wait(&self, now: Time, cpu: u32) -> Span {
        let left = self.awaited[cpu as usize].since(now).unwrap_or_default();
        match self.setup.poll.as_ps() {
            0 => left,
            poll => Span::from_ps(left.as_ps().div_ceil(poll) * poll),
        }
    }

    /// Busy time of the IOMMU with invalidations up to now.
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
    fn commands_wait_for_a_free_slot() {
        let (mut queue, takes) = (commands(4, 0), Span::from_ns(300));
        assert_eq!([0, 1].map(|cpu| queue.submit(at(0), cpu, takes)), [Ok(()); 2]);
        assert_eq!(queue.submit(at(100), 2, takes), Err(Span::from_ns(200)));
        assert_eq!(queue.submit(at(300), 2, takes), Ok(()));
        assert_eq!(queue.wait(at(300), 2), Span::from_ns(600));
    }

    #[test]
    fn a_rarely_polling_thread_waits_longer() {
        let mut queue = commands(256, 1_000);
        queue.submit(at(0), 0, Span::from_ns(300)).unwrap();
        assert_eq!([0, 299, 300].map(|now| queue.wait(at(now), 0).as_ps()), [1_000_000, 1_000_000, 0]);
    }
}
