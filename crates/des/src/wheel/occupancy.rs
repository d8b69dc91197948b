//! A bitmap of the occupied slots of a ring.

const WORD_BITS: usize = u64::BITS as usize;

/// A bit per slot. The number of slots is a power of two and at least 64.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupancy(Vec<u64>);

impl Occupancy {
    /// An occupancy of `places` slots, all free.
    pub(super) fn of(places: usize) -> Self {
        Self(vec![0; places.div_ceil(WORD_BITS)])
    }

    /// Marks a slot as occupied.
    #[inline]
    pub(super) fn set(&mut self, place: usize) {
        self.0[place / WORD_BITS] |= 1 << (place % WORD_BITS);
    }

    /// Marks a slot as free.
    #[inline]
    pub(super) fn clear(&mut self, place: usize) {
        self.0[place / WORD_BITS] &= !(1 << (place % WORD_BITS));
    }

    /// The first occupied slot from `start` on, wrapping around. There must be one.
    #[inline]
    pub(super) fn next_from(&self, start: usize) -> usize {
        let mut at = start / WORD_BITS;
        let mut word = self.0[at] & (!0 << (start % WORD_BITS));
        while word == 0 {
            at = (at + 1) & (self.0.len() - 1);
            word = self.0[at];
        }
        at * WORD_BITS + word.trailing_zeros() as usize
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
