//! The tolerated growth of counts.

use crate::{Average, Count};
use serde::Serialize;
use std::str::FromStr;

/// A tolerated amount: finite and not negative.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Tolerance(f64);

/// A text that is not a [`Tolerance`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a tolerance; expected a number, zero or more, such as 250 or 0.5")]
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

/// Growth of an event's mean that is always tolerated, per I/O. One timer tick more in a hundred windows is chance, and happens whenever
/// the number of instructions changes.
const CHANCE_PER_IO: f64 = 0.01;

/// The tolerated growth of counts. Instructions and events have separate bounds: tens of instructions more may be noise, but one hypercall
/// more costs more than all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// Additional instructions per I/O.
    pub instructions: Tolerance,
    /// Additional instructions in percent. Growth within either bound of instructions is tolerated.
    pub instructions_percent: Tolerance,
    /// Additional events of a kind per I/O.
    pub events: Tolerance,
}

impl Limit {
    /// Whether a count grew beyond the limit, from `a` to `b` per I/O. Always false for stages, functions and named events, which are parts of
    /// other counts: if one grows, another may shrink.
    pub fn is_exceeded(self, count: &Count, a: f64, b: f64) -> bool {
        let growth = b - a;
        match count {
            Count::Instructions => {
                growth > self.instructions.0 && growth > a * self.instructions_percent.0 / 100.0
            }
            Count::Event { average: Average::Median, .. } => growth > self.events.0,
            Count::Event { average: Average::Mean, .. } => growth > self.events.0.max(CHANCE_PER_IO),
            Count::Stage { .. } | Count::Function { .. } | Count::NamedEvent { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    fn limit(instructions: &str, percent: &str, events: &str) -> Limit {
        Limit {
            instructions: instructions.parse().unwrap(),
            instructions_percent: percent.parse().unwrap(),
            events: events.parse().unwrap(),
        }
    }

    #[test]
    fn growth_of_instructions_within_either_bound_is_tolerated() {
        let check = |limit: Limit, a: f64, b: f64, expect: bool| {
            assert_eq!(limit.is_exceeded(&Count::Instructions, a, b), expect, "{a} to {b} within {limit:?}");
        };
        check(Limit::default(), 100.0, 100.0, false);
        check(Limit::default(), 100.0, 100.5, true);
        check(Limit::default(), 100.0, 99.0, false);
        check(limit("10", "0", "0"), 100.0, 110.0, false);
        check(limit("10", "0", "0"), 100.0, 111.0, true);
        check(limit("0", "5", "0"), 100.0, 105.0, false);
        check(limit("0", "5", "0"), 100.0, 106.0, true);
        check(limit("10", "5", "0"), 100.0, 108.0, false);
        check(limit("10", "5", "0"), 1000.0, 1040.0, false);
        check(limit("10", "5", "1000"), 1000.0, 1060.0, true);
    }

    #[test]
    fn events_have_a_bound_of_their_own() {
        let check = |limit: Limit, average: Average, growth: f64, expect: bool| {
            let hypercalls = Count::Event { event: Event::Hypercalls, average };
            assert_eq!(
                limit.is_exceeded(&hypercalls, 2.0, 2.0 + growth),
                expect,
                "{average:?} by {growth} within {limit:?}"
            );
        };
        check(Limit::default(), Average::Median, 1.0, true);
        check(Limit::default(), Average::Median, -1.0, false);
        check(limit("1000", "100", "0"), Average::Median, 1.0, true);
        check(limit("0", "0", "1"), Average::Median, 1.0, false);
        check(limit("0", "0", "0.5"), Average::Median, 1.0, true);
        // Rare events show in the mean alone; a tick among many windows is not yet growth.
        check(Limit::default(), Average::Mean, 0.005, false);
        check(Limit::default(), Average::Mean, 0.02, true);
        check(limit("0", "0", "0.1"), Average::Mean, 0.02, false);
    }

    #[test]
    fn parts_of_a_count_have_no_bound() {
        let iova = Count::Stage { stage: crate::Stage::Iova };
        let function = Count::Function { function: "alloc_iova_fast".to_owned() };
        for count in [iova, function] {
            assert!(!Limit::default().is_exceeded(&count, 0.0, 1000.0), "{count}");
        }
    }

    #[test]
    fn a_tolerance_is_a_finite_amount() {
        for text in ["", "-1", "nan", "inf", "1e999", "5%", "ten"] {
            assert_eq!(text.parse::<Tolerance>().unwrap_err().text, text);
        }
        assert_eq!("0.5".parse(), Ok(Tolerance(0.5)));
    }
}
