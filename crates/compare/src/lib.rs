//! Compares documents of iotoll: what each figure was before and after a change, their ratio with a confidence interval, and what the counts say
//! why.
//!
//! ```text
//!   texts of each side
//!     |  document      which kind each is; all are of one kind; read and checked
//!     v
//!   watched            what was counted, by device and interval
//!     |  subject       sums of a device or of all, and the same by interval
//!     v
//!     |  sample        whether intervals are from the rounds within runs, or from the runs: three documents of each side or more
//!     v
//!   rate               amount per unit, with its variance over rounds or over runs
//!     |  ratio         after by before, with Fieller's interval
//!     v
//!   Comparison         figures by group; explanation: what the counts say why; difference: what else is not the same
//! ```
//!
//! Toll sheets are compared by [`toll::compare()`]; here only their kind is known.
//!
//! # Pitfalls
//!
//! - Two documents give an interval that holds for the time that was watched. What differs from run to run is in it only with three documents
//!   of each side or more ([`compare_runs`]), and what differs from boot to boot only if these are of different boots (Kalibera and Jones,
//!   Rigorous Benchmarking in Reasonable Time, 2013).
//! - A quantity that could not be counted is absent, not 0.

mod bench_comparison;
mod benched;
mod both;
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
mod sample;
mod subject;
mod watch_comparison;
mod watched;

pub use comparison::{
    Comparison, Difference, Doubt, Group, GroupKind, Row, Runs, SCHEMA, Side, Sign, Source,
};
pub use cost_per_io::{CostPerIo, costs_per_io};
pub use document::{Benchmark, DocumentError, Kind};
pub use explanation::{Cause, Explanation};
pub use quantity::{Quantity, Unit};
pub use rate::{ROUNDS_MIN, Rate, Round};
pub use ratio::Ratio;
pub use sample::{RUNS_MAX, RUNS_MIN, Sample};

use both::Both;
use difference::DraftDoubt;
use std::collections::HashMap;
use toll::TollSheet;

/// Documents of one kind.
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
    compare_runs(&[before], &[after])
}

/// Compares the documents of several runs before a change with those of several after it. Each is a text and the name of its file.
///
/// With [`RUNS_MIN`] or more of each side, a figure of a side is the mean of its runs, and intervals are from how much runs differ. With
/// fewer, the rounds of a side's documents are taken together, and the first doubt says what the intervals then lack.
///
/// # Errors
/// As [`compare()`]. Also if a side has no document or more than [`RUNS_MAX`], if a text comes twice among three or more, which would fake
/// certainty, and if there are several toll sheets of a side.
pub fn compare_runs(before: &[(&str, &str)], after: &[(&str, &str)]) -> Result<Compared, DocumentError> {
    let texts = Both { before, after };
    for (side, texts) in texts.with_sides() {
        if !(1..=RUNS_MAX).contains(&texts.len()) {
            return Err(DocumentError::Number { side, number: texts.len() });
        }
    }
    let kind = common_kind(texts)?;
    let is_several = before.len() > 1 || after.len() > 1;
    if is_several {
        check_once(texts)?;
    }
    let doubts: Vec<DraftDoubt> = doubt_of_pooling(before.len(), after.len()).into_iter().collect();
    let figures = |comparison| Compared::Figures(Box::new(comparison));
    match (kind, before, after) {
        (Kind::Watch, ..) => watch_comparison::compare_watched(texts, doubts).map(figures),
        (Kind::Bench(of), ..) => bench_comparison::compare_benched(of, texts, doubts).map(figures),
        (Kind::TollSheet, [before], [after]) => {
            let read = |(text, file): &(&str, &str)| TollSheet::read(text, file);
            Ok(Compared::Sheets(Box::new([read(before)?, read(after)?])))
        }
        (Kind::TollSheet, ..) => {
            let several = if before.len() > 1 { before } else { after };
            let file = several.first().map(|(_, file)| (*file).to_owned()).unwrap_or_default();
            Err(DocumentError::Sheets { file })
        }
    }
}

/// The kind that all documents are of.
fn common_kind(texts: Both<&[(&str, &str)]>) -> Result<Kind, DocumentError> {
    let mut first: Option<(Kind, &str)> = None;
    for (text, other) in texts.before.iter().chain(texts.after) {
        let other_kind = document::kind(text, other)?;
        let (kind, file) = *first.get_or_insert((other_kind, other));
        if kind != other_kind {
            let (file, other) = (file.to_owned(), (*other).to_owned());
            return Err(DocumentError::Kinds { file, kind, other, other_kind });
        }
    }
    first.map(|(kind, _)| kind).ok_or(DocumentError::Number { side: Side::Before, number: 0 })
}

/// Fails if two documents are the same.
fn check_once(texts: Both<&[(&str, &str)]>) -> Result<(), DocumentError> {
    let mut files: HashMap<&str, &str> = HashMap::new();
    for (text, file) in texts.before.iter().chain(texts.after) {
        if let Some(other) = files.insert(text.trim_ascii(), file) {
            return Err(DocumentError::Twice { file: (*file).to_owned(), other: other.to_owned() });
        }
    }
    Ok(())
}

/// What intervals lack if they are from the rounds of several documents.
fn doubt_of_pooling(before: usize, after: usize) -> Option<DraftDoubt> {
    let is_pooled = Sample::of(before, after) == Sample::Rounds && before.max(after) > 1;
    let words = format!(
        "what differs from run to run is accounted for in no interval: a side has fewer than {RUNS_MIN} documents, so the rounds of a side's \
         documents are taken together, as if they were of one run"
    );
    is_pooled.then(|| DraftDoubt::of_both(words))
}

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
