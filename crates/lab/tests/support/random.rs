//! Numbers that look random, the same at each run.

/// A generator (G. Marsaglia, "Xorshift RNGs", 2003). It begins with a number that is not 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
