//! Batches of free ranges of one size, which CPUs exchange.

use crate::lock::Lock;
use crate::sync::{AtomicUsize, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Ranges of the largest batch. With their number they fill eight cache lines.
pub(super) const BATCH_MAX: usize = 63;

/// Free ranges that move at once between a stack and the depot.
#[derive(Debug)]
pub(super) struct Batch {
    len: usize,
    firsts: [u64; BATCH_MAX],
}

impl Batch {
    fn new() -> Box<Self> {
        Box::new(Self { len: 0, firsts: [0; BATCH_MAX] })
    }

    /// The first pages of its ranges.
    pub(super) fn firsts(&mut self) -> &mut [u64] {
        &mut self.firsts[..self.len]
    }

    /// Replaces its ranges, by at most [`BATCH_MAX`] others.
    fn refill(&mut self, firsts: impl Iterator<Item = u64>) {
        self.len = 0;
        for (place, first) in self.firsts.iter_mut().zip(firsts) {
            *place = first;
            self.len += 1;
        }
    }
}

/// A batch that its owner does not use, so that exchanges don't allocate memory.
#[derive(Debug, Default)]
pub(super) struct Spare(Option<Box<Batch>>);

impl Spare {
    /// The spare batch with these ranges.
    pub(super) fn filled(&mut self, firsts: impl Iterator<Item = u64>) -> Box<Batch> {
        let mut batch = self.0.take().unwrap_or_else(Batch::new);
        batch.refill(firsts);
        batch
    }

    /// Memory in use, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |_| size_of::<Batch>() as u64)
    }

    /// Keeps a batch whose ranges were used.
    pub(super) fn keep(&mut self, batch: Box<Batch>) {
        self.0 = Some(batch);
    }
}

/// The batches of one size. Each part is used first by some CPUs and then by the others, so that CPUs rarely share a
/// cache line.
#[derive(Debug)]
pub(super) struct Depot {
    parts: Box<[Part]>,
    /// The largest number of batches in a part.
    part_batches_max: usize,
}

/// A part of a depot.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part {
    /// The number of full batches, read without the lock.
    full_count: AtomicUsize,
    batches: Lock<Batches>,
}

#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "a batch moves between a depot and a CPU as a pointer")]
struct Batches {
    full: Vec<Box<Batch>>,
    /// Batches without ranges, for CPUs that bring full ones.
    empty: Vec<Box<Batch>>,
}

impl Depot {
    /// A depot of at most `batches_max` batches in this number of parts, or fewer, so that each has room for one.
    pub(super) fn new(parts: usize, batches_max: usize) -> Self {
        let parts = parts.min(batches_max).max(1);
        Self { parts: (0..parts).map(|_| Part::default()).collect(), part_batches_max: batches_max / parts }
    }

    /// The parts in the order in which a CPU uses them.
    fn parts_of(&self, cpu: usize) -> impl Iterator<Item = &Part> {
        let (before, from) = self.parts.split_at(cpu % self.parts.len());
        from.iter().chain(before)
    }

    /// Adds a batch for a CPU, which gets an empty one as its spare. The batch comes back if there is no room.
    pub(super) fn add(&self, cpu: usize, batch: Box<Batch>, spare: &mut Spare) -> Result<(), Box<Batch>> {
        let has_room = |part: &&Part| part.full_count.load(Ordering::Relaxed) < self.part_batches_max;
        let Some(part) = self.parts_of(cpu).find(has_room) else { return Err(batch) };
        let mut batches = part.batches.lock();
        if batches.full.len() >= self.part_batches_max {
            return Err(batch);
        }
        batches.full.push(batch);
        spare.0 = spare.0.take().or_else(|| batches.empty.pop());
        part.full_count.store(batches.full.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Takes a batch for a CPU, whose spare batch stays here.
    pub(super) fn take(&self, cpu: usize, spare: &mut Spare) -> Option<Box<Batch>> {
        let has_any = |part: &&Part| part.full_count.load(Ordering::Relaxed) > 0;
        self.parts_of(cpu).filter(has_any).find_map(|part| {
            let mut batches = part.batches.lock();
            let batch = batches.full.pop()?;
            batches.empty.extend(spare.0.take());
            part.full_count.store(batches.full.len(), Ordering::Relaxed);
            Some(batch)
        })
    }

    /// Removes all ranges, and returns their first pages.
    pub(super) fn drain(&self) -> Vec<u64> {
        let mut firsts = Vec::new();
        for part in &self.parts {
            let mut batches = part.batches.lock();
            for mut batch in batches.full.drain(..) {
                firsts.extend_from_slice(batch.firsts());
            }
            part.full_count.store(0, Ordering::Relaxed);
        }
        firsts
    }

    /// The number of ranges, and the memory in use in bytes.
    pub(super) fn usage(&self) -> (u64, u64) {
        let (mut ranges, mut bytes) = (0, size_of_val(&*self.parts));
        for part in &self.parts {
            let batches = part.batches.lock();
            ranges += batches.full.iter().map(|batch| batch.len).sum::<usize>();
            bytes += (batches.full.capacity() + batches.empty.capacity()) * size_of::<Box<Batch>>();
            bytes += (batches.full.len() + batches.empty.len()) * size_of::<Batch>();
        }
        (ranges as u64, bytes as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_takes_its_own_batches_first_and_then_those_of_others() {
        let depot = Depot::new(2, 4);
        let mut spare = Spare::default();
        for (cpu, first) in [(0, 10), (1, 20), (3, 30)] {
            let batch = spare.filled([first, first + 1].into_iter());
            assert!(depot.add(cpu, batch, &mut spare).is_ok());
        }
        // The fourth goes to the other part, and the fifth finds no room.
        let fourth = spare.filled([40].into_iter());
        assert!(depot.add(1, fourth, &mut spare).is_ok());
        let fifth = spare.filled([50].into_iter());
        assert!(depot.add(1, fifth, &mut spare).is_err_and(|mut batch| batch.firsts() == [50]));
        assert_eq!(depot.usage().0, 7);
        let take = |cpu| depot.take(cpu, &mut Spare::default()).map(|mut batch| batch.firsts().to_vec());
        let taken = [1, 1, 1, 0, 0].map(take);
        assert_eq!(taken, [Some(vec![30, 31]), Some(vec![20, 21]), Some(vec![40]), Some(vec![10, 11]), None]);
        assert_eq!(depot.usage().0, 0);
    }

    #[test]
    fn exchanges_use_the_same_memory_again() {
        let depot = Depot::new(1, 8);
        let (mut bringing, mut taking) = (Spare::default(), Spare::default());
        let mut exchange = |first| {
            let batch = bringing.filled([first].into_iter());
            assert!(depot.add(0, batch, &mut bringing).is_ok());
            let mut batch = depot.take(1, &mut taking).unwrap();
            assert_eq!(batch.firsts(), [first]);
            taking.keep(batch);
            bringing.memory_bytes() + depot.usage().1 + taking.memory_bytes()
        };
        let bytes = [(); 50].map(|()| exchange(7));
        assert!(bytes[2..].iter().all(|later| *later == bytes[2]), "{bytes:?}");
        assert_eq!([&bringing, &taking].map(Spare::memory_bytes), [size_of::<Batch>() as u64; 2]);
        assert!(depot.drain().is_empty());
    }

    #[test]
    fn memory_counts_parts_batches_and_room_for_more() {
        let depot = Depot::new(2, 8);
        let parts = size_of_val(&*depot.parts) as u64;
        assert_eq!(depot.usage(), (0, parts));
        // Of four batches a CPU takes two, and leaves the first, now empty, when it takes the second.
        let mut spare = Spare::default();
        for first in [10, 20, 30, 40] {
            let batch = Spare::default().filled([first, first + 1].into_iter());
            assert!(depot.add(0, batch, &mut spare).is_ok());
        }
        spare.keep(depot.take(0, &mut Spare::default()).unwrap());
        assert!(depot.take(0, &mut spare).is_some());
        let batch = Spare::default().filled([50].into_iter());
        assert!(depot.add(1, batch, &mut Spare::default()).is_ok());
        let room = |part: &Part| {
            let batches = part.batches.lock();
            (batches.full.capacity() + batches.empty.capacity()) as u64
        };
        let pointers = depot.parts.iter().map(room).sum::<u64>() * size_of::<Box<Batch>>() as u64;
        assert_eq!(depot.usage(), (5, parts + pointers + 4 * size_of::<Batch>() as u64));
    }
}
