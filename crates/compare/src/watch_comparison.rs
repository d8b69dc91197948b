//! Two documents of `iotoll watch`, compared.

use crate::comparison::{Comparison, Difference, Doubt, Group, GroupKind, Row, Side, Source};
use crate::difference::{differences, doubts_of_machines, joined};
use crate::document::{DocumentError, Kind, read};
use crate::explanation::explain;
use crate::head::ReadHead;
use crate::quantity::{Quantity, Unit};
use crate::rate::{ROUNDS_MIN, Rate, Round};
use crate::ratio::Ratio;
use crate::subject::{Count, Devices, Subject};
use crate::watched::Watched;
use std::collections::BTreeSet;

/// If a larger share of the calls was lost, costs have no ratio.
const LOST_MAX: f64 = 0.01;

/// Counts besides I/O and CPU time.
const COUNTS: [Quantity; 6] = [
    Quantity::Maps,
    Quantity::Unmaps,
    Quantity::Iovas,
    Quantity::TableWrites,
    Quantity::Invalidations,
    Quantity::BouncedBytes,
];

/// Compares two documents of `iotoll watch`. Each is a text and the name of its file.
///
/// # Errors
/// [`DocumentError`] if one is not such a document.
pub(crate) fn compare_watched(
    before: (&str, &str),
    after: (&str, &str),
) -> Result<Comparison, DocumentError> {
    let read_head = |(text, file)| read::<ReadHead>(text, file, Kind::Watch);
    let heads = Both { before: read_head(before)?, after: read_head(after)? };
    let read_watched = |(text, file)| read::<Watched>(text, file, Kind::Watch);
    let documents = Both { before: &read_watched(before)?, after: &read_watched(after)? };
    let devices = documents.map(Devices::new);
    let mut differences = differences(&heads.before, &heads.after);
    differences.extend(function_difference(documents));
    let mut doubts = doubts_of_machines(&heads.before, &heads.after);
    doubts.extend(doubts_of_counts(documents));
    Ok(Comparison {
        documents: Kind::Watch.schema(),
        before: source(before.1, heads.before, documents.before),
        after: source(after.1, heads.after, documents.after),
        differences,
        doubts: joined(doubts),
        groups: groups(documents, &devices),
    })
}

/// The same of both documents.
#[derive(Debug, Clone, Copy)]
struct Both<T> {
    before: T,
    after: T,
}

impl<'d, T> Both<&'d T> {
    fn map<U>(self, of: impl Fn(&'d T) -> U) -> Both<U> {
        Both { before: of(self.before), after: of(self.after) }
    }
}

fn source(file: &str, head: ReadHead, document: &Watched) -> Source {
    let (seconds, intervals) = (Some(document.seconds), Some(document.intervals.len()));
    Source { seconds, intervals, ..Source::new(file, head) }
}

/// Functions of the kernel that were watched in one document alone.
fn function_difference(documents: Both<&Watched>) -> Option<Difference> {
    let only = |one: &Watched, other: &Watched| -> Option<String> {
        let names = one.functions.iter().filter(|name| !other.functions.contains(name));
        let names: Vec<&str> = names.map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let Both { before, after } = documents;
    // Where nothing could be counted, that is said, and no function was watched.
    if before.uncounted.is_some() || after.uncounted.is_some() {
        return None;
    }
    let (before, after) = (only(before, after), only(after, before));
    let what = "functions watched in one alone".to_owned();
    (before.is_some() || after.is_some()).then_some(Difference { what, before, after })
}

/// Reasons to doubt the figures: what was not counted, and devices that only one document has.
fn doubts_of_counts(documents: Both<&Watched>) -> Vec<Doubt> {
    let Both { before, after } = documents;
    let mut doubts = Vec::new();
    for (side, document, other) in [(Side::Before, before, after), (Side::After, after, before)] {
        let uncounted = document
            .uncounted
            .iter()
            .map(|why| format!("the kernel's DMA functions were not counted: {why}"));
        let words = uncounted.chain(lost(document)).chain(only_here(document, other));
        doubts.extend(words.map(|words| Doubt { side: Some(side), words }));
    }
    doubts
}

/// What a document says of lost calls.
fn lost(document: &Watched) -> Option<String> {
    let (lost, share) = (document.losses.total(), document.lost_share());
    let effect = match share > LOST_MAX {
        true => "costs have no ratio",
        false => "intervals are wider by their share",
    };
    (lost > 0).then(|| {
        format!(
            "{lost} calls of the kernel's DMA functions were not counted ({:.4} %): {effect}",
            share * 100.0
        )
    })
}

/// Devices that only this document has.
fn only_here(document: &Watched, other: &Watched) -> Option<String> {
    let others: BTreeSet<&str> = other.adapters.iter().map(|one| one.adapter.as_str()).collect();
    let names =
        document.adapters.iter().map(|one| one.adapter.as_str()).filter(|name| !others.contains(name));
    let names: Vec<&str> =
        names.map(|name| if name.is_empty() { "what works for no device" } else { name }).collect();
    (!names.is_empty()).then(|| format!("in this document alone: {}", names.join(", ")))
}

/// The groups: all devices if there are several, then each that both documents have.
fn groups(documents: Both<&Watched>, devices: &Both<Devices<'_>>) -> Vec<Group> {
    let names = |document: &Watched| -> Vec<String> {
        document.adapters.iter().map(|adapter| adapter.adapter.clone()).collect()
    };
    let (before, after) = (names(documents.before), names(documents.after));
    let all = Both { before: &devices.before.all(), after: &devices.after.all() };
    let mut groups = Vec::new();
    if before != after || before.len() != 1 {
        groups.push(group(documents, all, GroupKind::AllAdapters, String::new()));
    }
    for name in before {
        if let Some((before, after)) = devices.before.one(&name).zip(devices.after.one(&name)) {
            let subjects = Both { before: &before, after: &after };
            groups.push(group(documents, subjects, GroupKind::Adapter, name));
        }
    }
    groups
}

/// The figures of a device or of all.
fn group(documents: Both<&Watched>, subjects: Both<&Subject<'_>>, kind: GroupKind, name: String) -> Group {
    let unit = unit(subjects);
    let row = |count| row(documents, subjects, count, unit);
    let mut rows = Vec::new();
    if unit != Unit::Second {
        rows.push(self::row(documents, subjects, Count::of(Quantity::Io), Unit::Second));
    }
    rows.push(row(Count::of(Quantity::CpuNs)));
    rows.push(row(Count::of(Quantity::CpuWithoutWatchingNs)));
    let stages: BTreeSet<_> = subjects.before.stages().chain(subjects.after.stages()).collect();
    let of_stage = |stage| Count { quantity: Quantity::CpuNs, stage: Some(stage) };
    rows.extend(stages.into_iter().map(of_stage).map(row));
    rows.extend(COUNTS.map(Count::of).map(row));
    let explanations = explain(&subjects.before.counts(), &subjects.after.counts());
    Group { kind, name, explanations, rows }
}

/// What costs are divided by: seconds where the documents have I/O of different kinds, or none.
fn unit(subjects: Both<&Subject<'_>>) -> Unit {
    let units = subjects.map(Subject::unit);
    if units.before == units.after { units.before } else { Unit::Second }
}

/// A count before and after.
fn row(documents: Both<&Watched>, subjects: Both<&Subject<'_>>, count: Count, unit: Unit) -> Row {
    let row = Row { stage: count.stage, ..Row::new(count.quantity, unit) };
    // What adapters completed is the kernel's own counter.
    let is_of_calls = count.quantity != Quantity::Io;
    if is_of_calls && let Some(reason) = uncounted(documents, count) {
        return Row { reason: Some(reason), ..row };
    }
    let figures = subjects.map(|subject| subject.per_unit(count, unit));
    let (Some(before), Some(after)) = (figures.before, figures.after) else {
        let reason = Some("not measured in both".to_owned());
        return Row { before: figures.before, after: figures.after, reason, ..row };
    };
    let lost = if is_of_calls { lost_share(documents) } else { 0.0 };
    match interval(subjects, count, unit) {
        _ if lost > LOST_MAX => {
            let reason = format!("{:.1} % of the calls were not counted", lost * 100.0);
            Row { before: Some(before), after: Some(after), reason: Some(reason), ..row }
        }
        Ok(interval) if before > 0.0 => {
            row.with_figures(before, after, "").with_interval(interval.with_lost(lost))
        }
        Ok(_) => row.with_figures(before, after, ""),
        Err(reason) => row.with_figures(before, after, reason),
    }
}

/// The ratio with its interval, or why there is none.
fn interval(subjects: Both<&Subject<'_>>, count: Count, unit: Unit) -> Result<Ratio, String> {
    if count.quantity == Quantity::CpuWithoutWatchingNs {
        return Err("the part of watching is known only about".to_owned());
    }
    let rounds = |side: Side, subject: &Subject<'_>| {
        subject.rounds(count, unit).map_err(|why| format!("{}: {why}", side.word()))
    };
    let before = rounds(Side::Before, subjects.before)?;
    let after = rounds(Side::After, subjects.after)?;
    for (side, rounds) in [(Side::Before, &before), (Side::After, &after)] {
        check_number(side, rounds)?;
    }
    let rates = Rate::of(&after).zip(Rate::of(&before));
    rates
        .and_then(|(after, before)| Ratio::of(&after, &before))
        .ok_or_else(|| "no confidence interval: it varies so much before that it could be 0".to_owned())
}

/// Fails if there are too few rounds for an interval.
fn check_number(side: Side, rounds: &[Round]) -> Result<(), String> {
    let side = side.word();
    match rounds.iter().filter(|round| round.amount != 0.0 || round.units != 0.0).count() {
        ROUNDS_MIN.. => Ok(()),
        1 => Err(format!("{side}: one interval: no confidence interval")),
        number => Err(format!("{side}: {number} intervals: a confidence interval needs {ROUNDS_MIN}")),
    }
}

/// Why a count has no figures in one of the documents.
fn uncounted(documents: Both<&Watched>, count: Count) -> Option<String> {
    let of = |side: Side, document| {
        count.uncounted_in(document).map(|why| format!("{}: not counted: {why}", side.word()))
    };
    of(Side::Before, documents.before).or_else(|| of(Side::After, documents.after))
}

/// The share of calls that were lost in both documents.
fn lost_share(documents: Both<&Watched>) -> f64 {
    documents.before.lost_share() + documents.after.lost_share()
}
