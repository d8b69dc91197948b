//! Checks that the numbers of a toll sheet agree with each other.

use crate::{Event, Spread, Stage, Toll, TollSheet};
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
#[non_exhaustive]
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
    /// The sheet has no boot, or a workload was counted in another number of boots.
    #[error(
        "preset {preset}, workload {workload}: counted in {found} boots; expected {expected} as in `boots` of the sheet, at least 1"
    )]
    Boots {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// Boots of the workload.
        found: usize,
        /// Boots of the sheet.
        expected: usize,
    },
    /// A boot of a workload has no window.
    #[error("preset {preset}, workload {workload}, boot {boot}: no windows; expected at least 1")]
    EmptyBoot {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The boot's number, from 1.
        boot: usize,
    },
    /// Two boots of the sheet are the same, so that one was counted twice.
    #[error("preset {preset}: two boots have the seed {seed}; expected another seed for each boot")]
    SameBoot {
        /// The sheet's preset.
        preset: String,
        /// The seed.
        seed: u64,
    },
    /// The sheet's base is the sheet itself.
    #[error("preset {preset} is its own base; expected the preset without translation, or none")]
    OwnBase {
        /// The sheet's preset.
        preset: String,
    },
    /// A number does not follow from the windows of all boots.
    #[error(
        "preset {preset}, workload {workload}: {what} is {found}; expected {expected} by the windows of all boots"
    )]
    Windows {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The number.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The value that follows from the windows.
        expected: u64,
    },
    /// The stages of a boot don't add up to the instructions of its windows.
    #[error(
        "preset {preset}, workload {workload}, boot {boot}: `stages` add up to {stages} instructions; expected {windows} as in `windows`"
    )]
    BootStages {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The boot's number, from 1.
        boot: usize,
        /// What the stages add up to.
        stages: u128,
        /// What the windows add up to.
        windows: u128,
    },
    /// Events of the boots don't add up to all of their kind.
    #[error(
        "preset {preset}, workload {workload}: {event} of all boots add up to {sum}; expected the total of {total}"
    )]
    BootEvents {
        /// The sheet's preset.
        preset: String,
        /// The toll's workload.
        workload: String,
        /// The kind.
        event: Event,
        /// What the boots' events add up to.
        sum: u128,
        /// The total of the kind.
        total: u64,
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
        if self.base.as_ref() == Some(&self.preset) {
            return Err(Flaw::OwnBase { preset: self.preset.clone() });
        }
        let mut seeds = BTreeSet::new();
        if let Some(boot) = self.boots.iter().find(|boot| !seeds.insert(boot.seed)) {
            return Err(Flaw::SameBoot { preset: self.preset.clone(), seed: boot.seed });
        }
        let mut seen = BTreeSet::new();
        for toll in &self.tolls {
            let (preset, workload) = (self.preset.clone(), toll.workload.clone());
            if !seen.insert(&toll.workload) {
                return Err(Flaw::Twice { preset, workload });
            }
            TollCheck { preset: &self.preset, boots: self.boots.len(), toll }.check()?;
        }
        Ok(())
    }
}

/// A toll to check, with its preset for errors.
struct TollCheck<'s> {
    preset: &'s str,
    /// Boots of the sheet.
    boots: usize,
    toll: &'s Toll,
}

impl TollCheck<'_> {
    /// Checks one toll.
    fn check(&self) -> Result<(), Flaw> {
        self.check_boots()?;
        let Toll { stages, user, .. } = self.toll;
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

    /// Checks that the numbers of all windows follow from the windows of the boots.
    fn check_boots(&self) -> Result<(), Flaw> {
        let (boots, (preset, workload)) = (&self.toll.boots, self.names());
        if boots.is_empty() || boots.len() != self.boots {
            return Err(Flaw::Boots { preset, workload, found: boots.len(), expected: self.boots });
        }
        for (number, boot) in (1..).zip(boots) {
            if boot.windows.is_empty() {
                return Err(Flaw::EmptyBoot { preset, workload, boot: number });
            }
            let (stages, windows) = (total(boot.stages.values()), total(&boot.windows));
            if stages != windows {
                return Err(Flaw::BootStages { preset, workload, boot: number, stages, windows });
            }
        }
        let spread = self.toll.instructions;
        let windows = boots.iter().flat_map(|boot| boot.windows.iter().copied()).collect();
        let expected =
            Spread::of(windows).unwrap_or(Spread { median: 0, min: 0, p99: 0, max: 0, at_median: 0 });
        let number = boots.iter().map(|boot| boot.windows.len() as u64).sum();
        let compared = [
            ("the number of windows", u64::from(self.toll.windows.get()), number),
            ("the median", spread.median, expected.median),
            ("the smallest count", spread.min, expected.min),
            ("the 99th percentile", spread.p99, expected.p99),
            ("the largest count", spread.max, expected.max),
            (
                "the number of windows at the median",
                u64::from(spread.at_median),
                u64::from(expected.at_median),
            ),
        ];
        match compared.into_iter().find(|(_, found, expected)| found != expected) {
            None => Ok(()),
            Some((what, found, expected)) => Err(Flaw::Windows { preset, workload, what, found, expected }),
        }
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
            let of_boots = total(self.toll.boots.iter().map(|boot| boot.events.get(event).unwrap_or(&0)));
            if of_boots != u128::from(all.total) {
                let (preset, workload) = self.names();
                return Err(Flaw::BootEvents {
                    preset,
                    workload,
                    event: *event,
                    sum: of_boots,
                    total: all.total,
                });
            }
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
