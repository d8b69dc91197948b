//! Compares two documents of iotoll: what each figure was before and after, their ratio with a confidence interval, and what the counts say why.
//!
//! ```text
//!   text, text
//!     |  document      which kind each is; both are of one kind; read and checked
//!     v
//!   watched            what was counted, by device and interval
//!     |  subject       sums of a device or of all, and the same by interval
//!     v
//!   rate               amount per unit, with its variance over intervals
//!     |  ratio         after by before, with Fieller's interval
//!     v
//!   Comparison         figures by group; explanation: what the counts say why; difference: what else is not the same
//! ```
//!
//! Toll sheets are compared by [`toll::compare()`]; here only their kind is known.
//!
//! # Pitfalls
//!
//! - An interval holds for the time that was watched. What differs from boot to boot, or from one day to the next, is not in it: compare
//!   several documents of each side (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time, 2013).
//! - A quantity that could not be counted is absent, not 0.

mod bench_comparison;
mod benched;
mod comparison;
mod cost_per_io;
mod difference;
mod document;
mod explanation;
mod head;
mod median_ratio;
mod quantity;
mod rate;
mod ratio;
mod subject;
mod watch_comparison;
mod watched;

pub use comparison::{Comparison, Difference, Doubt, Group, GroupKind, Row, SCHEMA, Side, Sign, Source};
pub use cost_per_io::{CostPerIo, costs_per_io};
pub use document::{Benchmark, DocumentError, Kind};
pub use explanation::{Cause, Explanation};
pub use quantity::{Quantity, Unit};
pub use rate::{ROUNDS_MIN, Rate, Round};
pub use ratio::Ratio;

use toll::TollSheet;

/// Two documents of one kind.
#[derive(Debug)]
pub enum Compared {
    /// Of `iotoll watch` or `iotoll bench`, compared.
    Figures(Box<Comparison>),
    /// Toll sheets, before and after, which [`toll::compare()`] compares.
    Sheets(Box<[TollSheet; 2]>),
}

/// Compares two documents. Each is a text and the name of its file, which is for errors and the result.
///
/// # Errors
/// [`DocumentError`] if a text is no document that can be compared, contradicts itself, or is of another kind than the other.
pub fn compare(before: (&str, &str), after: (&str, &str)) -> Result<Compared, DocumentError> {
    let (before_kind, after_kind) = (document::kind(before.0, before.1)?, document::kind(after.0, after.1)?);
    if before_kind != after_kind {
        let (before, after) = (before.1.to_owned(), after.1.to_owned());
        return Err(DocumentError::Kinds { before, before_kind, after, after_kind });
    }
    let figures = |comparison| Compared::Figures(Box::new(comparison));
    match before_kind {
        Kind::Watch => watch_comparison::compare_watched(before, after).map(figures),
        Kind::Bench(of) => bench_comparison::compare_benched(of, before, after).map(figures),
        Kind::TollSheet => {
            let read = |(text, file)| TollSheet::read(text, file);
            Ok(Compared::Sheets(Box::new([read(before)?, read(after)?])))
        }
    }
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
