//! How much growth is put up with.

use serde::Serialize;
use std::str::FromStr;

/// An amount that is put up with: finite and not negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Tolerance(f64);

/// A text that is no [`Tolerance`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no tolerance; expected a number, zero or more, as 250 or 0.5")]
pub struct BadTolerance {
    /// The text.
    pub text: String,
}

impl FromStr for Tolerance {
    type Err = BadTolerance;

    fn from_str(text: &str) -> Result<Self, BadTolerance> {
        let amount: Option<f64> =
            text.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount >= 0.0);
        amount.map(Self).ok_or_else(|| BadTolerance { text: text.to_owned() })
    }
}

/// The growth of a count that is put up with. Growth within either bound is: a percentage alone lets large
/// counts vary, a number alone lets rare events happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Limit {
    /// More of a count (instructions or events) per I/O.
    pub per_io: Tolerance,
    /// More of a count in percent of what it was.
    pub percent: Tolerance,
}

impl Limit {
    /// Whether growth from `a` to `b`, both per I/O, is beyond it. Without tolerance, any growth is.
    pub fn is_exceeded(self, a: f64, b: f64) -> bool {
        let growth = b - a;
        growth > self.per_io.0 && growth > a * self.percent.0 / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(per_io: &str, percent: &str) -> Limit {
        Limit { per_io: per_io.parse().unwrap(), percent: percent.parse().unwrap() }
    }

    #[test]
    fn growth_within_either_bound_is_put_up_with() {
        let check = |limit: Limit, a: f64, b: f64, expect: bool| {
            assert_eq!(limit.is_exceeded(a, b), expect, "{a} to {b} within {limit:?}");
        };
        check(Limit::default(), 100.0, 100.0, false);
        check(Limit::default(), 100.0, 100.5, true);
        check(Limit::default(), 100.0, 99.0, false);
        check(limit("10", "0"), 100.0, 110.0, false);
        check(limit("10", "0"), 100.0, 111.0, true);
        check(limit("0", "5"), 100.0, 105.0, false);
        check(limit("0", "5"), 100.0, 106.0, true);
        check(limit("0", "5"), 0.0, 1.0, true);
        check(limit("1", "5"), 0.0, 1.0, false);
        check(limit("10", "5"), 100.0, 108.0, false);
        check(limit("10", "5"), 1000.0, 1040.0, false);
    }

    #[test]
    fn a_tolerance_is_a_finite_amount() {
        for text in ["", "-1", "nan", "inf", "1e999", "5%", "ten"] {
            assert_eq!(text.parse::<Tolerance>().unwrap_err().text, text);
        }
        assert_eq!("0.5".parse(), Ok(Tolerance(0.5)));
    }
}
