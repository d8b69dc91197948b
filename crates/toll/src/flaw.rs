//! Checks that the numbers of a toll sheet agree with each other.

use crate::{Event, Stage, Toll, TollSheet};
use std::collections::BTreeSet;
use std::fmt;

/// Ways to divide the instructions of the median window. The parts of each add up to the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// User mode and kernel.
    Mode,
    /// The stages.
    Stage,
    /// The functions.
    Function,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mode => "`user` and `kernel`",
            Self::Stage => "`stages`",
            Self::Function => "`functions`",
        })
    }
}

/// A contradiction within a sheet. At least one of its numbers is wrong, so the sheet is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The date is invalid.
    #[error("preset {preset}: measured on `{date}`; expected a date such as 2024-12-31")]
    Date {
        /// The sheet's preset.
        preset: String,
        /// The text in its place.
        date: String,
    },
    /// Two tolls have the same name.
    #[error("preset {preset}: workload {workload} appears twice; expected once")]
    Twice {
        /// The sheet's preset.
        preset: String,
        /// The name.
        workload: String,
    },
    /// A division of the instructions does not add up.
    #[error(
        "preset {preset}, workload {workload}: {part} add up to {sum} instructions; \
         expected the median window's {median}"
    )]
    Sum {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The division.
        part: Part,
        /// What it adds up to.
        sum: u128,
        /// What it should add up to.
        median: u64,
    },
    /// The two counts of instructions in user mode differ.
    #[error(
        "preset {preset}, workload {workload}: stage `user` has {stage} instructions; expected {user} as in `user`"
    )]
    User {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// Instructions of the stage.
        stage: u64,
        /// Instructions in user mode.
        user: u64,
    },
    /// Statistics are out of order, for example a minimum above the median.
    #[error(
        "preset {preset}, workload {workload}: {low} is {low_count}; expected at most {high_count}, which is {high}"
    )]
    Order {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The number that should be the smaller.
        low: &'static str,
        /// Its value.
        low_count: u64,
        /// The number that should be the larger.
        high: &'static str,
        /// Its value.
        high_count: u64,
    },
    /// Events by name don't add up to all of their kind.
    #[error(
        "preset {preset}, workload {workload}: {event} by name add up to {sum}; expected the total of {total}"
    )]
    Events {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The kind.
        event: Event,
        /// What the names' totals add up to.
        sum: u128,
        /// The total of the kind.
        total: u64,
    },
}

impl TollSheet {
    /// Checks that the sheet's numbers agree with each other.
    ///
    /// # Errors
    /// The first [`Flaw`] in the order of the document.
    pub fn check(&self) -> Result<(), Flaw> {
        if !is_date(&self.measured_on) {
            return Err(Flaw::Date { preset: self.preset.clone(), date: self.measured_on.clone() });
        }
        let mut seen = BTreeSet::new();
        for toll in &self.tolls {
            let (preset, workload) = (self.preset.clone(), toll.workload.clone());
            if !seen.insert(&toll.workload) {
                return Err(Flaw::Twice { preset, workload });
            }
            TollCheck { preset: &self.preset, toll }.check()?;
        }
        Ok(())
    }
}

/// A toll to check, with its preset for errors.
struct TollCheck<'s> {
    preset: &'s str,
    toll: &'s Toll,
}

impl TollCheck<'_> {
    /// Checks one toll.
    fn check(&self) -> Result<(), Flaw> {
        let Toll { instructions: spread, windows, stages, user, .. } = self.toll;
        self.check_order(("the smallest count", spread.min), ("the median", spread.median))?;
        self.check_order(("the median", spread.median), ("the 99th percentile", spread.p99))?;
        self.check_order(("the 99th percentile", spread.p99), ("the largest count", spread.max))?;
        // At least one window has exactly the median.
        let at_median = ("the number of windows at the median", u64::from(spread.at_median));
        self.check_order(("one", 1), at_median)?;
        self.check_order(at_median, ("the number of windows", u64::from(windows.get())))?;
        self.check_sum(Part::Mode, [user, &self.toll.kernel])?;
        self.check_sum(Part::Stage, stages.values())?;
        self.check_sum(Part::Function, self.toll.functions.values())?;
        let stage = stages.get(&Stage::User).copied().unwrap_or(0);
        if stage != *user {
            let (preset, workload) = self.names();
            return Err(Flaw::User { preset, workload, stage, user: *user });
        }
        self.check_events()
    }

    /// The preset and the workload, for errors.
    fn names(&self) -> (String, String) {
        (self.preset.to_owned(), self.toll.workload.clone())
    }

    /// Checks that the first count is not above the second. Each has a name for the error.
    fn check_order(&self, low: (&'static str, u64), high: (&'static str, u64)) -> Result<(), Flaw> {
        if low.1 <= high.1 {
            return Ok(());
        }
        let (preset, workload) = self.names();
        Err(Flaw::Order { preset, workload, low: low.0, low_count: low.1, high: high.0, high_count: high.1 })
    }

    /// Checks that the parts add up to the instructions of the median window.
    fn check_sum<'n>(&self, part: Part, counts: impl IntoIterator<Item = &'n u64>) -> Result<(), Flaw> {
        let (sum, median) = (total(counts), self.toll.instructions.median);
        if sum == u128::from(median) {
            return Ok(());
        }
        let (preset, workload) = self.names();
        Err(Flaw::Sum { preset, workload, part, sum, median })
    }

    /// Checks that the counts of events agree with each other.
    fn check_events(&self) -> Result<(), Flaw> {
        for (event, tally) in &self.toll.events {
            let all = tally.all;
            self.check_order(("the median of its events", all.median), ("their total", all.total))?;
            let sum = total(tally.by_name.values().map(|named| &named.total));
            if !tally.by_name.is_empty() && sum != u128::from(all.total) {
                let (preset, workload) = self.names();
                return Err(Flaw::Events { preset, workload, event: *event, sum, total: all.total });
            }
        }
        Ok(())
    }
}

/// A sum in 128 bits, which can't overflow.
fn total<'n>(counts: impl IntoIterator<Item = &'n u64>) -> u128 {
    counts.into_iter().map(|count| u128::from(*count)).sum()
}

/// Whether a text is a date in ISO 8601 form. Days up to 31 are accepted in every month.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let within = |part: &str, digits: usize, last: u32| {
        let whole = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        whole && part.parse().is_ok_and(|number: u32| (1..=last).contains(&number))
    };
    within(year, 4, 9999) && within(month, 2, 12) && within(day, 2, 31)
}
