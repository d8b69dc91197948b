//! The time average of a level.

use crate::{Misuse, Time};

/// A level that changes over time, such as a queue length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeAverage {
    level: u64,
    max: u64,
    last: Time,
    integral_ps: u128,
}

impl TimeAverage {
    /// Sets the level from now on.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    #[inline]
    pub fn set(&mut self, now: Time, level: u64) -> Result<(), Misuse> {
        self.integral_ps = self.integral_ps(now)?;
        self.last = now;
        self.level = level;
        self.max = self.max.max(level);
        Ok(())
    }

    /// The current level.
    #[inline]
    pub fn level(&self) -> u64 {
        self.level
    }

    /// The highest level so far.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Integral of the level since time 0, in picoseconds. Exact.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    #[inline]
    pub fn integral_ps(&self, now: Time) -> Result<u128, Misuse> {
        let since = now.since(self.last).ok_or(Misuse::TimeWentBack { now, last: self.last })?;
        Ok(self.integral_ps + u128::from(self.level) * u128::from(since.as_ps()))
    }

    /// Mean level since time 0; 0 at time 0.
    ///
    /// # Errors
    /// [`Misuse::TimeWentBack`]
    pub fn average(&self, now: Time) -> Result<f64, Misuse> {
        Ok(self.integral_ps(now)? as f64 / now.as_ps().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weighs_levels_by_how_long_they_last() {
        let at = Time::from_ps;
        let mut level = TimeAverage::default();
        level.set(at(10), 4).unwrap();
        level.set(at(20), 9).unwrap();
        level.set(at(20), 1).unwrap();
        assert_eq!((level.level(), level.max()), (1, 9));
        assert_eq!(level.integral_ps(at(40)), Ok(4 * 10 + 20));
        assert_eq!(level.average(at(40)), Ok(1.5));
        assert_eq!(level.set(at(19), 0), Err(Misuse::TimeWentBack { now: at(19), last: at(20) }));
        assert_eq!(level.average(at(40)), Ok(1.5));
    }
}
