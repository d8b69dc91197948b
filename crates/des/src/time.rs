//! Virtual time, in whole picoseconds.

use crate::readable;
use std::{
    fmt,
    ops::{Add, AddAssign},
};

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_MS: u64 = 1_000_000_000;

/// A point in simulated time, in picoseconds since the start. It ends after 213 days.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A duration in simulated time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// The start of a simulation.
    pub const ZERO: Self = Self(0);
    /// The last point in time; anything scheduled later happens then.
    pub const MAX: Self = Self(u64::MAX);

    /// A point in picoseconds since the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The span since an earlier point; `None` if that is later.
    pub const fn since(self, earlier: Self) -> Option<Span> {
        match self.0.checked_sub(earlier.0) {
            Some(ps) => Some(Span(ps)),
            None => None,
        }
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// A span in picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// A span in nanoseconds, at most [`Span::MAX`].
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(PS_PER_NS))
    }

    /// A span in microseconds, at most [`Span::MAX`].
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(PS_PER_US))
    }

    /// A span in milliseconds, at most [`Span::MAX`].
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(PS_PER_MS))
    }

    /// In picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// In picoseconds, as a float.
    pub const fn as_ps_f64(self) -> f64 {
        self.0 as f64
    }

    /// A span rounded to picoseconds. Negative numbers and NaN become 0; large ones [`Span::MAX`].
    pub const fn from_ps_f64(ps: f64) -> Self {
        // Adding a half first would round twice: the sum too is rounded, to the next even number above 2^52.
        let whole = ps as u64;
        let rounds_up = ps - whole as f64 >= 0.5;
        Self(if rounds_up { whole.saturating_add(1) } else { whole })
    }

    /// A span from nanoseconds, rounded to picoseconds. Negative numbers and NaN become 0; large ones [`Span::MAX`].
    pub const fn from_ns_f64(ns: f64) -> Self {
        Self::from_ps_f64(ns * PS_PER_NS as f64)
    }

    /// In nanoseconds, with fractions.
    pub const fn as_ns_f64(self) -> f64 {
        self.as_ps_f64() / PS_PER_NS as f64
    }
}

/// Saturates at [`Time::MAX`].
impl Add<Span> for Time {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Saturates at [`Span::MAX`].
impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// As of a [`Span`] since the start.
impl fmt::Display for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        readable::write_rounded(self.0, formatter)
    }
}

/// In the unit that fits, with up to four significant digits: `1.5 µs`. A precision sets the digits after the point:
/// `{:.2}` shows `1.50 µs`. Halves are rounded up.
impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        readable::write_rounded(self.0, formatter)
    }
}

/// Like [`Display`](fmt::Display), but exact unless a precision is given.
impl fmt::Debug for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        readable::write_exact(self.0, formatter)
    }
}

/// Like [`Display`](fmt::Display), but exact unless a precision is given.
impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        readable::write_exact(self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_where_its_bits_do() {
        assert_eq!(Time::MAX + Span::from_ns(1), Time::MAX);
        assert_eq!(Span::from_ms(u64::MAX), Span::MAX);
        assert_eq!(Span::from_us(3) + Span::from_ns(5), Span::from_ps(3_005_000));
        assert_eq!(Time::from_ps(5).since(Time::from_ps(6)), None);
        assert_eq!(Time::from_ps(7).since(Time::from_ps(5)), Some(Span::from_ps(2)));
    }

    #[test]
    fn rounds_to_picoseconds() {
        let rounded = [0.49, 0.5, 2.4, -3.0, f64::NAN, f64::INFINITY].map(|ps| Span::from_ps_f64(ps).as_ps());
        assert_eq!(rounded, [0, 1, 2, 0, 0, u64::MAX]);
        // The largest number below a half, and whole numbers, which have no halves between them.
        assert_eq!(Span::from_ps_f64(0.499_999_999_999_999_94), Span::ZERO);
        assert_eq!(Span::from_ps_f64(1.499_999_999_999_999_8), Span::from_ps(1));
        for ps in [(1 << 52) + 1, (1 << 53) - 1, 1 << 53, 1 << 63] {
            assert_eq!(Span::from_ps_f64(ps as f64), Span::from_ps(ps));
        }
        assert_eq!(Span::from_ps_f64(((1_u64 << 51) + 1) as f64 + 0.5), Span::from_ps((1 << 51) + 2));
        assert_eq!(Span::from_ns_f64(1.2344), Span::from_ps(1_234));
        assert_eq!(Span::from_ps(1_234).as_ns_f64(), 1.234);
    }
}
