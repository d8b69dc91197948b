//! Reproducible random numbers.

use crate::{Span, ziggurat};
use rand_pcg::{Pcg64Mcg, rand_core::Rng};

/// The random stream of one entity. It depends only on the seed and the entity, so an entity's draws never change
/// those of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream(Pcg64Mcg);

impl Stream {
    /// The stream of an entity in a simulation with this seed.
    pub fn new(seed: u64, entity: u64) -> Self {
        // Each half of the state mixes seed and entity, so that streams of neighbours are unrelated.
        let low = mix(mix(seed) ^ entity);
        let high = mix(low ^ mix(entity) ^ seed.rotate_left(32));
        Self(Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        ziggurat::unit(self.bits())
    }

    /// A uniform integer below `end`; 0 if `end` is 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        loop {
            // Lemire's method: reject the few low halves that would make some results too frequent.
            let product = u128::from(self.bits()) * u128::from(end);
            let low = product as u64;
            if low >= end || low >= end.wrapping_neg().checked_rem(end).unwrap_or(0) {
                return (product >> 64) as u64;
            }
        }
    }

    /// Exponentially distributed with this mean.
    #[inline]
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span::from_ps_f64(mean.as_ps_f64() * ziggurat::exponential(|| self.bits()))
    }
}

/// A bijection that spreads each bit over all others (the finaliser of SplitMix64; Steele, Lea and Flood, 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
