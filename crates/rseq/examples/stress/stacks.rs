//! A stack for each possible CPU.

use rseq::{Rseq, VALUES_AT};
use std::sync::atomic::AtomicU64;

/// log2 of the bytes of a stack.
const SHIFT: u32 = 14;
const WORDS: usize = 1 << (SHIFT - 3);
/// Values that a stack has room for.
pub const CAPACITY: u64 = (WORDS - VALUES_AT) as u64;

/// Stacks that only steps change once threads use them.
pub struct Stacks {
    rseq: Rseq,
    words: Vec<AtomicU64>,
}

impl Stacks {
    /// Empty stacks.
    pub fn new(rseq: Rseq) -> Self {
        Self { rseq, words: (0..rseq.cpus() * WORDS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The count of a CPU's stack, and its values with those above the count. Counts are at most [`CAPACITY`].
    pub fn of(&self, cpu: usize) -> (&AtomicU64, &[AtomicU64]) {
        let words = &self.words[cpu * WORDS..(cpu + 1) * WORDS];
        (&words[0], &words[VALUES_AT..])
    }

    /// Pops from the current CPU's stack. `None` if it is empty or the step was interrupted.
    #[allow(unsafe_code, reason = "steps work on plain memory")]
    pub fn pop(&self) -> Option<u64> {
        // SAFETY: `words` has a stack for each CPU, with counts of at most CAPACITY, and only steps change it meanwhile.
        unsafe { self.rseq.try_pop::<SHIFT>(self.words.as_ptr().cast_mut(), self.rseq.cpus(), 0, u64::MAX) }
    }

    /// Pushes to the current CPU's stack. False if it is full or the step was interrupted.
    #[allow(unsafe_code, reason = "steps work on plain memory")]
    pub fn push(&self, value: u64) -> bool {
        // SAFETY: as in `pop`.
        unsafe {
            self.rseq.try_push::<SHIFT>(self.words.as_ptr().cast_mut(), self.rseq.cpus(), CAPACITY, value)
        }
    }
}
