//! Random numbers that are the same for the same seed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A seeded generator.
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// The generator of one thread; those of other threads are independent.
    pub(crate) fn of_thread(seed: u64, thread: usize) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A random number below `end`, which must not be 0. For the sizes used here, the bias is below 2^-32.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }
}
