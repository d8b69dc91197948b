//! A bounded queue of ranges from one thread to another.

use iova::Range;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A counter without neighbours on its two cache lines, which CPUs fetch in pairs.
#[repr(align(128))]
#[derive(Default)]
struct PaddedCounter(AtomicU64);

/// The queue. One thread pushes and one pops, both in batches, so that the queue's own cost is small.
pub(crate) struct Spsc {
    /// First page and pages of each range.
    slots: Box<[(AtomicU64, AtomicU64)]>,
    /// The number of ranges pushed since the beginning.
    pushed: PaddedCounter,
    /// The number of ranges popped since the beginning.
    popped: PaddedCounter,
}

impl Spsc {
    /// A queue of `capacity` rounded up to a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (0..capacity.next_power_of_two()).map(|_| Default::default()).collect();
        Self { slots, pushed: PaddedCounter::default(), popped: PaddedCounter::default() }
    }

    /// The slot of the range with this running number.
    fn slot(&self, index: u64) -> &(AtomicU64, AtomicU64) {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Waits for free slots, then makes the whole batch visible at once. Only one thread may push.
    pub(crate) fn push(&self, batch: &[Range]) {
        let at = self.pushed.0.load(Relaxed);
        // Acquire: the consumer has read the slots before they are overwritten; pairs with the Release in `pop`.
        wait_until(|| at - self.popped.0.load(Acquire) + batch.len() as u64 <= self.slots.len() as u64);
        for (offset, range) in batch.iter().enumerate() {
            let (first, pages) = self.slot(at + offset as u64);
            first.store(range.first, Relaxed);
            pages.store(range.pages, Relaxed);
        }
        // Release: makes the slots visible with the count; pairs with the Acquire in `pop`.
        self.pushed.0.store(at + batch.len() as u64, Release);
    }

    /// Waits for `batch.len()` ranges and pops them. Only one thread may pop.
    pub(crate) fn pop(&self, batch: &mut [Range]) {
        let at = self.popped.0.load(Relaxed);
        wait_until(|| self.pushed.0.load(Acquire) - at >= batch.len() as u64);
        for (offset, range) in batch.iter_mut().enumerate() {
            let (first, pages) = self.slot(at + offset as u64);
            *range = Range { first: first.load(Relaxed), pages: pages.load(Relaxed) };
        }
        // Release: the slots have been read; pairs with the Acquire in `push`.
        self.popped.0.store(at + batch.len() as u64, Release);
    }
}

/// Waits for a condition: spins 100 times, then yields the CPU, since there may be more threads than CPUs.
fn wait_until(condition: impl Fn() -> bool) {
    let mut spins = 0;
    while !condition() {
        spins += 1;
        if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_popped_in_the_order_in_which_they_were_pushed() {
        let queue = Spsc::new(8);
        let range = |first| Range { first, pages: first + 1 };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000).for_each(|at| queue.push(&[range(2 * at), range(2 * at + 1)])));
            for at in 0..500 {
                let mut batch = [range(0); 4];
                queue.pop(&mut batch);
                assert_eq!(batch, [4 * at, 4 * at + 1, 4 * at + 2, 4 * at + 3].map(range));
            }
        });
    }
}
