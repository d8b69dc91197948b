//! A bounded queue of ranges from one thread to another.

use iova::Range;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Alone on its cache lines (two: CPUs fetch them in pairs).
#[repr(align(128))]
#[derive(Default)]
struct Apart(AtomicU64);

/// The queue. One thread pushes, one takes; both in batches, so that the queue's own cost is small.
pub(crate) struct Spsc {
    /// First page and pages of each range.
    slots: Box<[(AtomicU64, AtomicU64)]>,
    /// How many were ever pushed.
    pushed: Apart,
    /// How many were ever taken.
    taken: Apart,
}

impl Spsc {
    /// A queue of `capacity` rounded up to a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        let slots = (0..capacity.next_power_of_two()).map(|_| Default::default()).collect();
        Self { slots, pushed: Apart::default(), taken: Apart::default() }
    }

    fn slot(&self, index: u64) -> &(AtomicU64, AtomicU64) {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// Waits for room for the batch, then makes it visible at once. For the one thread that pushes.
    pub(crate) fn push(&self, batch: &[Range]) {
        let at = self.pushed.0.load(Relaxed);
        // Acquire: the slots were read before they are written again.
        wait_until(|| at - self.taken.0.load(Acquire) + batch.len() as u64 <= self.slots.len() as u64);
        for (offset, range) in batch.iter().enumerate() {
            let (first, pages) = self.slot(at + offset as u64);
            first.store(range.first, Relaxed);
            pages.store(range.pages, Relaxed);
        }
        // Release: with the count come the slots; pairs with the Acquire in `take`.
        self.pushed.0.store(at + batch.len() as u64, Release);
    }

    /// Waits for `batch.len()` ranges and takes them. For the one thread that takes.
    pub(crate) fn take(&self, batch: &mut [Range]) {
        let at = self.taken.0.load(Relaxed);
        wait_until(|| self.pushed.0.load(Acquire) - at >= batch.len() as u64);
        for (offset, range) in batch.iter_mut().enumerate() {
            let (first, pages) = self.slot(at + offset as u64);
            *range = Range { first: first.load(Relaxed), pages: pages.load(Relaxed) };
        }
        // Release: the slots were read; pairs with the Acquire in `push`.
        self.taken.0.store(at + batch.len() as u64, Release);
    }
}

/// Spins a little, then lets other threads run: there may be more of them than CPUs.
fn wait_until(is_so: impl Fn() -> bool) {
    let mut spins = 0;
    while !is_so() {
        spins += 1;
        if spins < 100 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let queue = Spsc::new(8);
        let range = |first| Range { first, pages: first + 1 };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000).for_each(|at| queue.push(&[range(2 * at), range(2 * at + 1)])));
            for at in 0..500 {
                let mut batch = [range(0); 4];
                queue.take(&mut batch);
                assert_eq!(batch, [4 * at, 4 * at + 1, 4 * at + 2, 4 * at + 3].map(range));
            }
        });
    }
}
