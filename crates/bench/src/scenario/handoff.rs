//! The scenarios `handoff` and `drift`: half of the threads allocate, the others free.

use super::ring::Requests;
use super::{Setup, USED_MAX_INVERSE, Worker};
use crate::caller::{Caller, Counts};
use crate::sizes::Sizes;
use crate::spsc::Spsc;
use iova::Range;
use std::sync::Arc;

/// Ranges that pass through the queue at once.
pub(super) const BATCH: usize = 16;
/// The queue's capacity.
pub(super) const CAPACITY: u64 = 1024;

/// The smallest number of ranges in flight in `drift`.
pub(super) const IN_FLIGHT_MIN: u64 = 256;
/// The largest number of ranges in flight in `drift`. It exceeds a Linux depot's 32 magazines of 127 ranges per size
/// (`drivers/iommu/iova.c`).
const IN_FLIGHT_MAX: u64 = 16_384;
/// Rounds in which `drift` grows to the largest number and shrinks again.
pub(super) const CYCLE_ROUNDS: u64 = 16;

/// The largest number of ranges in flight between two threads, such that all threads' ranges fit into the space.
pub(super) fn in_flight_max(setup: &Setup) -> u64 {
    let pages = setup.space.pages() / USED_MAX_INVERSE / (setup.threads as u64 / 2).max(1);
    IN_FLIGHT_MAX.min(pages / Sizes::Storage.mean_pages()).max(IN_FLIGHT_MIN)
}

/// How many ranges are allocated and not yet freed when a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InFlight {
    /// None.
    Constant,
    /// A number that grows and shrinks from round to round.
    Drifting,
}

/// The workers of all threads: producers at even indexes, each followed by its consumer.
pub(super) fn workers(setup: &Setup, in_flight: InFlight) -> Vec<Box<dyn Worker>> {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for two in 0..setup.threads / 2 {
        let (capacity, sizes) = match in_flight {
            InFlight::Constant => (CAPACITY.min(setup.held(Sizes::One).max(2 * BATCH as u64)), Sizes::One),
            InFlight::Drifting => (in_flight_max(setup) + 2 * BATCH as u64, Sizes::Storage),
        };
        let queue = Arc::new(Spsc::new(capacity as usize));
        let schedule =
            Schedule { kind: in_flight, max: in_flight_max(setup), round: two as u64, in_flight: 0 };
        let requests = Requests::new(setup, sizes, two);
        workers.push(Box::new(Producer {
            queue: Arc::clone(&queue),
            schedule,
            requests,
            batch: Vec::with_capacity(BATCH),
        }));
        workers.push(Box::new(Consumer { queue, schedule }));
    }
    workers
}

/// The number of ranges in flight between two threads. Each of the two has a copy and computes the same numbers.
#[derive(Clone, Copy)]
struct Schedule {
    kind: InFlight,
    max: u64,
    round: u64,
    in_flight: u64,
}

impl Schedule {
    /// The numbers of allocations and frees in the next round of `pairs`.
    fn next_round(&mut self, pairs: u64) -> (u64, u64) {
        let wanted = match self.kind {
            InFlight::Constant => 0,
            InFlight::Drifting => {
                let half = CYCLE_ROUNDS / 2;
                let place = self.round % CYCLE_ROUNDS;
                let height = if place < half { place } else { CYCLE_ROUNDS - place };
                IN_FLIGHT_MIN + (self.max - IN_FLIGHT_MIN) * height / half
            }
        };
        self.round += 1;
        // The number changes by at most half of a round's pairs, so that both threads still work.
        let most = pairs / 2;
        let next = wanted.clamp(self.in_flight.saturating_sub(most), self.in_flight + most);
        let round =
            (pairs + next.saturating_sub(self.in_flight), pairs + self.in_flight.saturating_sub(next));
        self.in_flight = next;
        round
    }
}

/// Placeholder in the queue for a failed allocation, so that the consumer gets as many entries as it expects.
const NONE: Range = Range { first: 0, pages: 0 };

/// The worker that allocates.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
struct Producer {
    queue: Arc<Spsc>,
    schedule: Schedule,
    requests: Requests,
    batch: Vec<Range>,
}

impl Worker for Producer {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let (allocated, _) = self.schedule.next_round(pairs);
        let mut left = allocated;
        while left > 0 {
            let batch = left.min(BATCH as u64);
            self.batch.extend((0..batch).map(|_| caller.allocate(&self.requests.next()).unwrap_or(NONE)));
            self.queue.push(&self.batch);
            self.batch.clear();
            left -= batch;
        }
        caller.finish(allocated)
    }
}

/// The worker that frees.
// Workers change with each call, and share no cache line, of which CPUs fetch two at once.
#[repr(align(128))]
struct Consumer {
    queue: Arc<Spsc>,
    schedule: Schedule,
}

impl Worker for Consumer {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let (_, freed) = self.schedule.next_round(pairs);
        let mut left = freed as usize;
        let mut batch = [NONE; BATCH];
        while left > 0 {
            let part = &mut batch[..left.min(BATCH)];
            self.queue.pop(part);
            part.iter().filter(|range| **range != NONE).for_each(|range| caller.free(*range));
            left -= part.len();
        }
        caller.finish(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_flight_grow_and_shrink_with_allocations_and_frees() {
        let mut schedule = Schedule { kind: InFlight::Drifting, max: 8 * 256, round: 0, in_flight: 0 };
        let mut in_flight = 0;
        let mut seen = Vec::new();
        for _ in 0..2 * CYCLE_ROUNDS {
            let (allocated, freed) = schedule.next_round(1000);
            in_flight = in_flight + allocated - freed;
            assert_eq!(in_flight, schedule.in_flight);
            seen.push(in_flight);
        }
        assert_eq!(seen.iter().max(), Some(&(8 * 256)));
        assert_eq!(seen[CYCLE_ROUNDS as usize], 256);
        assert_eq!(seen[..CYCLE_ROUNDS as usize], seen[CYCLE_ROUNDS as usize..]);
        let mut level = Schedule { kind: InFlight::Constant, ..schedule };
        level.in_flight = 0;
        assert_eq!(level.next_round(77), (77, 77));
    }
}
