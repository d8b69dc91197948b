//! What is wrong with a toll sheet that is well-formed.

use crate::{Event, Stage, Toll, TollSheet};
use std::collections::BTreeSet;
use std::fmt;

/// Parts that instructions are divided into: each division adds up to the median window.
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

/// A contradiction within a sheet. Its numbers can't all be true, so none is used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The date is none.
    #[error("preset {preset}: measured on `{date}`, expected a date as 2024-12-31")]
    Date {
        /// The sheet's preset.
        preset: String,
        /// What stands there.
        date: String,
    },
    /// Two tolls have the same name.
    #[error("preset {preset}: workload {workload} is there twice, expected once")]
    Twice {
        /// The sheet's preset.
        preset: String,
        /// The name.
        workload: String,
    },
    /// A division of the instructions does not add up.
    #[error(
        "preset {preset}, workload {workload}: {part} add up to {sum} instructions, \
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
    /// User mode is counted twice, differently.
    #[error(
        "preset {preset}, workload {workload}: stage `user` has {stage} instructions, expected {user} as in `user`"
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
    /// Statistics are out of order, as a minimum above its median.
    #[error(
        "preset {preset}, workload {workload}: {low} is {low_count}, expected at most the {high_count} of {high}"
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
        "preset {preset}, workload {workload}: {event} by name add up to {sum}, expected the total of {total}"
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
    /// Whether the sheet's numbers agree with each other.
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
            Checked { preset: &self.preset, toll }.check()?;
        }
        Ok(())
    }
}

struct Checked<'s> {
    preset: &'s str,
    toll: &'s Toll,
}

impl Checked<'_> {
    fn check(&self) -> Result<(), Flaw> {
        let Toll { instructions: spread, windows, stages, user, .. } = self.toll;
        self.in_order(("the smallest count", spread.min), ("the median", spread.median))?;
        self.in_order(("the median", spread.median), ("the 99th percentile", spread.p99))?;
        self.in_order(("the 99th percentile", spread.p99), ("the largest count", spread.max))?;
        // The median is a count that windows had.
        let at_median = ("the number of windows at the median", u64::from(spread.at_median));
        self.in_order(("one", 1), at_median)?;
        self.in_order(at_median, ("the number of windows", u64::from(windows.get())))?;
        self.sum(Part::Mode, [user, &self.toll.kernel])?;
        self.sum(Part::Stage, stages.values())?;
        self.sum(Part::Function, self.toll.functions.values())?;
        let stage = stages.get(&Stage::User).copied().unwrap_or(0);
        if stage != *user {
            let (preset, workload) = self.place();
            return Err(Flaw::User { preset, workload, stage, user: *user });
        }
        self.events()
    }

    fn place(&self) -> (String, String) {
        (self.preset.to_owned(), self.toll.workload.clone())
    }

    fn in_order(&self, low: (&'static str, u64), high: (&'static str, u64)) -> Result<(), Flaw> {
        if low.1 <= high.1 {
            return Ok(());
        }
        let (preset, workload) = self.place();
        Err(Flaw::Order { preset, workload, low: low.0, low_count: low.1, high: high.0, high_count: high.1 })
    }

    fn sum<'n>(&self, part: Part, counts: impl IntoIterator<Item = &'n u64>) -> Result<(), Flaw> {
        let (sum, median) = (total(counts), self.toll.instructions.median);
        if sum == u128::from(median) {
            return Ok(());
        }
        let (preset, workload) = self.place();
        Err(Flaw::Sum { preset, workload, part, sum, median })
    }

    fn events(&self) -> Result<(), Flaw> {
        for (event, tally) in &self.toll.events {
            let all = tally.all;
            self.in_order(("the median of its events", all.median), ("their total", all.total))?;
            let sum = total(tally.by_name.values().map(|named| &named.total));
            if !tally.by_name.is_empty() && sum != u128::from(all.total) {
                let (preset, workload) = self.place();
                return Err(Flaw::Events { preset, workload, event: *event, sum, total: all.total });
            }
        }
        Ok(())
    }
}

/// A sum that can't overflow: there are fewer than 2^64 counts.
fn total<'n>(counts: impl IntoIterator<Item = &'n u64>) -> u128 {
    counts.into_iter().map(|count| u128::from(*count)).sum()
}

/// Whether a text is a day as ISO 8601 writes it. The length of months is not looked at.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let within = |part: &str, digits: usize, last: u32| {
        let whole = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        whole && part.parse().is_ok_and(|number: u32| (1..=last).contains(&number))
    };
    within(year, 4, 9999) && within(month, 2, 12) && within(day, 2, 31)
}
