//! Half of the threads allocate, the others free.

use super::ring::Requests;
use super::{Setup, USED_MAX_INVERSE, Worker};
use crate::caller::{Caller, Counts};
use crate::sizes::Sizes;
use crate::spsc::Spsc;
use iova::Range;
use std::sync::Arc;

/// Ranges handed over at once.
pub(super) const BATCH: usize = 16;
/// Ranges that wait to be freed at most.
pub(super) const CAPACITY: u64 = 1024;

/// Where ranges in flight go up and down: the fewest.
pub(super) const IN_FLIGHT_MIN: u64 = 256;
/// The most: beyond what a Linux depot holds of a size, 32 magazines of 127 (`drivers/iommu/iova.c`).
const IN_FLIGHT_MAX: u64 = 16_384;
/// Rounds from the fewest to the most and back.
pub(super) const CYCLE_ROUNDS: u64 = 16;

/// The most ranges in flight of two threads, in a space with room for all.
pub(super) fn in_flight_max(setup: &Setup) -> u64 {
    let pages = setup.space.pages() / USED_MAX_INVERSE / (setup.threads as u64 / 2).max(1);
    IN_FLIGHT_MAX.min(pages / Sizes::Storage.mean_pages()).max(IN_FLIGHT_MIN)
}

/// How many ranges wait to be freed when a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flight {
    /// None.
    Level,
    /// More and more, then less and less.
    Waves,
}

/// Producers at even places, each followed by its consumer.
pub(super) fn workers(setup: &Setup, flight: Flight) -> Vec<Box<dyn Worker>> {
    let mut workers: Vec<Box<dyn Worker>> = Vec::new();
    for two in 0..setup.threads / 2 {
        let (capacity, sizes) = match flight {
            Flight::Level => (CAPACITY.min(setup.held(Sizes::One).max(2 * BATCH as u64)), Sizes::One),
            Flight::Waves => (in_flight_max(setup) + 2 * BATCH as u64, Sizes::Storage),
        };
        let queue = Arc::new(Spsc::new(capacity as usize));
        let tide = Tide { flight, max: in_flight_max(setup), round: two as u64, in_flight: 0 };
        let requests = Requests::new(setup, sizes, two);
        workers.push(Box::new(Producer {
            queue: Arc::clone(&queue),
            tide,
            requests,
            batch: Vec::with_capacity(BATCH),
        }));
        workers.push(Box::new(Consumer { queue, tide }));
    }
    workers
}

/// The ranges in flight as both threads of two know them.
#[derive(Clone, Copy)]
struct Tide {
    flight: Flight,
    max: u64,
    round: u64,
    in_flight: u64,
}

impl Tide {
    /// How many a round of `pairs` allocates and how many it frees.
    fn turn(&mut self, pairs: u64) -> (u64, u64) {
        let wanted = match self.flight {
            Flight::Level => 0,
            Flight::Waves => {
                let half = CYCLE_ROUNDS / 2;
                let place = self.round % CYCLE_ROUNDS;
                let height = if place < half { place } else { CYCLE_ROUNDS - place };
                IN_FLIGHT_MIN + (self.max - IN_FLIGHT_MIN) * height / half
            }
        };
        self.round += 1;
        // The smaller half of a round's work: what two are at is a hand-over still.
        let most = pairs / 2;
        let next = wanted.clamp(self.in_flight.saturating_sub(most), self.in_flight + most);
        let turn = (pairs + next.saturating_sub(self.in_flight), pairs + self.in_flight.saturating_sub(next));
        self.in_flight = next;
        turn
    }
}

/// Stands in the queue for a range that there was none of, so that the consumer does not wait for it.
const NONE: Range = Range { first: 0, pages: 0 };

struct Producer {
    queue: Arc<Spsc>,
    tide: Tide,
    requests: Requests,
    batch: Vec<Range>,
}

impl Worker for Producer {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let (allocated, _) = self.tide.turn(pairs);
        let mut left = allocated;
        while left > 0 {
            let batch = left.min(BATCH as u64);
            self.batch.extend((0..batch).map(|_| caller.allocate(&self.requests.next()).unwrap_or(NONE)));
            self.queue.push(&self.batch);
            self.batch.clear();
            left -= batch;
        }
        caller.done(allocated)
    }
}

struct Consumer {
    queue: Arc<Spsc>,
    tide: Tide,
}

impl Worker for Consumer {
    fn work(&mut self, mut caller: Caller<'_>, pairs: u64) -> Counts {
        let (_, freed) = self.tide.turn(pairs);
        let mut left = freed as usize;
        let mut batch = [NONE; BATCH];
        while left > 0 {
            let part = &mut batch[..left.min(BATCH)];
            self.queue.take(part);
            part.iter().filter(|range| **range != NONE).for_each(|range| caller.free(*range));
            left -= part.len();
        }
        caller.done(freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_flight_rise_and_fall_and_add_up() {
        let mut tide = Tide { flight: Flight::Waves, max: 8 * 256, round: 0, in_flight: 0 };
        let mut in_flight = 0;
        let mut seen = Vec::new();
        for _ in 0..2 * CYCLE_ROUNDS {
            let (allocated, freed) = tide.turn(1000);
            in_flight = in_flight + allocated - freed;
            assert_eq!(in_flight, tide.in_flight);
            seen.push(in_flight);
        }
        assert_eq!(seen.iter().max(), Some(&(8 * 256)));
        assert_eq!(seen[CYCLE_ROUNDS as usize], 256);
        assert_eq!(seen[..CYCLE_ROUNDS as usize], seen[CYCLE_ROUNDS as usize..]);
        let mut level = Tide { flight: Flight::Level, ..tide };
        level.in_flight = 0;
        assert_eq!(level.turn(77), (77, 77));
    }
}
