//! Documents of `iotoll watch`, compared.

use crate::bench_comparison::COULD_BE_0;
use crate::both::Both;
use crate::comparison::{Comparison, Difference, Group, GroupKind, Row, Runs, Side, Source};
use crate::difference::{
    DraftDoubt, differences, doubts_of_machines, doubts_within_sides, head_statements, joined, on_one_side,
};
use crate::document::{DocumentError, Kind, read};
use crate::explanation::{Counts, explain_all};
use crate::head::ReadHead;
use crate::quantity::{Quantity, Unit};
use crate::rate::{ROUNDS_MIN, Rate, Round};
use crate::ratio::Ratio;
use crate::sample::{Sample, mean, too_few_runs};
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

/// Compares documents of `iotoll watch`. Each is a text and the name of its file.
///
/// # Errors
/// [`DocumentError`] if one is not such a document.
pub(crate) fn compare_watched(
    texts: Both<&[(&str, &str)]>,
    doubts: Vec<DraftDoubt>,
) -> Result<Comparison, DocumentError> {
    let read_head = |(text, file): &(&str, &str)| read::<ReadHead>(text, file, Kind::Watch);
    let heads: Both<Vec<ReadHead>> = texts.try_map(|texts| texts.iter().map(read_head).collect())?;
    let read_watched = |(text, file): &(&str, &str)| read::<Watched>(text, file, Kind::Watch);
    let documents: Both<Vec<Watched>> = texts.try_map(|texts| texts.iter().map(read_watched).collect())?;
    let devices = documents.as_ref().map(|all| all.iter().map(Devices::new).collect::<Vec<_>>());
    let statements = head_statements(heads.as_slices());
    let mut differences = differences(&statements);
    differences.extend(function_difference(documents.as_slices()));
    let mut doubts = doubts;
    doubts.extend(doubts_within_sides(&statements));
    doubts.extend(doubts_of_functions(documents.as_slices()));
    doubts.extend(doubts_of_machines(&heads));
    doubts.extend(doubts_of_counts(&documents));
    doubts.extend(doubts_of_devices(devices.as_slices()));
    let files = texts.map(|texts| texts.iter().map(|(_, file)| *file).collect::<Vec<_>>());
    doubts.extend(doubts_of_paths(devices.as_slices(), files.as_slices()));
    let sources = |heads: Vec<ReadHead>, texts: &[(&str, &str)], documents: &[Watched]| {
        let all = heads.into_iter().zip(texts).zip(documents);
        all.map(|((head, (_, file)), document)| source(file, head, document)).collect()
    };
    let runs = Runs {
        before: sources(heads.before, texts.before, &documents.before),
        after: sources(heads.after, texts.after, &documents.after),
    };
    let groups = groups(devices.as_slices());
    Comparison::new(Kind::Watch, runs, differences, joined(doubts, files.as_slices()), groups)
}

fn source(file: &str, head: ReadHead, document: &Watched) -> Source {
    let (seconds, intervals) = (Some(document.seconds), Some(document.intervals.len()));
    Source { seconds, intervals, ..Source::new(file, head) }
}

/// The kernel's functions that were watched in any of these documents, in their order.
fn functions(documents: &[Watched]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let all = documents.iter().flat_map(|document| &document.functions).map(String::as_str);
    all.filter(|name| seen.insert(*name)).collect()
}

/// Functions of the kernel that were watched on one side alone.
fn function_difference(documents: Both<&[Watched]>) -> Option<Difference> {
    let only = |one: &[&str], other: &[&str]| -> Option<String> {
        let other: BTreeSet<&&str> = other.iter().collect();
        let names: Vec<&str> = one.iter().filter(|name| !other.contains(name)).copied().collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    // Where nothing could be counted, that is said, and no function was watched.
    if documents.before.iter().chain(documents.after).any(|one| one.uncounted.is_some()) {
        return None;
    }
    let Both { before, after } = documents.map(functions);
    let (before, after) = (only(&before, &after), only(&after, &before));
    let what = "functions watched in one alone".to_owned();
    (before.is_some() || after.is_some()).then_some(Difference { what, before, after })
}

/// Functions of the kernel that were watched in some documents of a side, but not in others that counted.
fn doubts_of_functions(documents: Both<&[Watched]>) -> Vec<DraftDoubt> {
    let doubt = |(side, documents): (Side, &[Watched])| {
        let counted = || documents.iter().filter(|one| one.uncounted.is_none());
        let sets: Vec<BTreeSet<&String>> = counted().map(|one| one.functions.iter().collect()).collect();
        let (first, rest) = sets.split_first()?;
        let in_all = rest.iter().fold(first.clone(), |all, one| all.intersection(one).copied().collect());
        let names: BTreeSet<&str> = counted()
            .flat_map(|one| &one.functions)
            .filter(|name| !in_all.contains(name))
            .map(String::as_str)
            .collect();
        let names: Vec<&str> = names.into_iter().collect();
        let words = format!("functions watched in some documents of this side alone: {}", names.join(", "));
        (!names.is_empty()).then(|| DraftDoubt::of_side(side, words))
    };
    documents.with_sides().into_iter().filter_map(doubt).collect()
}

/// Documents whose counts say that they are on another DMA path than the first of their side: a file was taken for another's, perhaps.
fn doubts_of_paths(devices: Both<&[Devices<'_>]>, files: Both<&[&str]>) -> Vec<DraftDoubt> {
    let of_side = |(side, (devices, files)): (Side, (&[Devices<'_>], &[&str]))| -> Vec<DraftDoubt> {
        let counts: Vec<Counts> = devices.iter().map(|one| one.all().counts()).collect();
        let (Some(first), Some(file)) = (counts.first(), files.first()) else { return Vec::new() };
        let is_other = |counts: &Counts| !explain_all(&[*first], &[*counts]).is_empty();
        let words = format!("by its counts on another DMA path than {file}");
        let others = counts.iter().enumerate().filter(|(_, counts)| is_other(counts));
        others.map(|(place, _)| DraftDoubt::of_document(side, place, words.clone())).collect()
    };
    let both = Both { before: (devices.before, files.before), after: (devices.after, files.after) };
    both.with_sides().into_iter().flat_map(of_side).collect()
}

/// What was not counted.
fn doubts_of_counts(documents: &Both<Vec<Watched>>) -> Vec<DraftDoubt> {
    let uncounted = documents.places().filter_map(|(side, place, document)| {
        let why = document.uncounted.as_ref()?;
        let words = format!("the kernel's DMA functions were not counted: {why}");
        Some(DraftDoubt::of_document(side, place, words))
    });
    let sides = documents.as_slices().with_sides().into_iter();
    let lost = sides.filter_map(|(side, documents)| Some(DraftDoubt::of_side(side, lost(documents)?)));
    uncounted.chain(lost).collect()
}

/// What the documents of a side say of lost calls.
fn lost(documents: &[Watched]) -> Option<String> {
    let lost = documents.iter().fold(0_u64, |sum, one| sum.saturating_add(one.losses.total()));
    let share = documents.iter().map(Watched::lost_share).fold(0.0, f64::max);
    let effect = match share > LOST_MAX {
        true => "costs have no ratio",
        false => "intervals are wider by their share",
    };
    let of = if documents.len() == 1 { "" } else { " of a document at most" };
    (lost > 0).then(|| {
        format!(
            "{lost} calls of the kernel's DMA functions were not counted ({:.4} %{of}): {effect}",
            share * 100.0
        )
    })
}

/// Devices that only one side has.
fn doubts_of_devices(devices: Both<&[Devices<'_>]>) -> Vec<DraftDoubt> {
    let Both { before, after } = devices;
    let doubt = |(side, here, other): (Side, &[Devices<'_>], &[Devices<'_>])| {
        let alone = names(here).into_iter().filter(|name| other.iter().all(|one| !one.has(name)));
        let names: Vec<&str> =
            alone.map(|name| if name.is_empty() { "what works for no device" } else { name }).collect();
        let place = on_one_side(here.len());
        (!names.is_empty()).then(|| DraftDoubt::of_side(side, format!("{place}: {}", names.join(", "))))
    };
    [(Side::Before, before, after), (Side::After, after, before)].into_iter().filter_map(doubt).collect()
}

/// The names of a side's devices, each once.
fn names<'d>(devices: &[Devices<'d>]) -> Vec<&'d str> {
    let mut seen = BTreeSet::new();
    devices.iter().flat_map(Devices::names).filter(|name| seen.insert(*name)).collect()
}

/// The groups: all devices if there are several, then each that both sides have.
fn groups(devices: Both<&[Devices<'_>]>) -> Vec<Group> {
    let sample = Sample::of(devices.before.len(), devices.after.len());
    let (before, after) = (names(devices.before), names(devices.after));
    let mut groups = Vec::new();
    if before != after || before.len() != 1 {
        let all = devices.map(|side| side.iter().map(Devices::all).collect::<Vec<_>>());
        groups.push(group(all.as_slices(), GroupKind::AllAdapters, String::new(), sample));
    }
    for name in before {
        let one = devices.map(|side| side.iter().filter_map(|devices| devices.one(name)).collect::<Vec<_>>());
        if !one.after.is_empty() {
            groups.push(group(one.as_slices(), GroupKind::Adapter, name.to_owned(), sample));
        }
    }
    groups
}

/// The figures of a device or of all, in the documents that have it.
fn group(subjects: Both<&[Subject<'_>]>, kind: GroupKind, name: String, sample: Sample) -> Group {
    let unit = unit(subjects);
    let row = |count| row(subjects, count, unit, sample);
    let mut rows = Vec::new();
    if unit != Unit::Second {
        rows.push(self::row(subjects, Count::of(Quantity::Io), Unit::Second, sample));
    }
    let all = || subjects.before.iter().chain(subjects.after);
    let [with, without] = [Quantity::CpuNs, Quantity::CpuWithoutWatchingNs];
    let [other, of_stages] =
        if all().all(Subject::knows_watching) { [with, without] } else { [without, with] };
    rows.extend([other, of_stages].map(Count::of).map(row));
    let stages: BTreeSet<_> = all().flat_map(Subject::stages).collect();
    let of_stage = |stage| Count { quantity: of_stages, stage: Some(stage) };
    rows.extend(stages.into_iter().map(of_stage).map(row));
    rows.extend(COUNTS.map(Count::of).map(row));
    // Documents that counted nothing say nothing, as their rows do.
    let counts = subjects.map(|subjects| {
        subjects.iter().map(Subject::counts).filter(Counts::is_known).collect::<Vec<Counts>>()
    });
    let explanations = explain_all(&counts.before, &counts.after);
    Group { kind, name, explanations, rows }
}

/// What costs are divided by: seconds where the documents have I/O of different kinds, or none.
fn unit(subjects: Both<&[Subject<'_>]>) -> Unit {
    let units = subjects.before.iter().chain(subjects.after).map(Subject::unit);
    let unit = units.map(Some).reduce(|one, other| if one == other { one } else { None });
    unit.flatten().unwrap_or(Unit::Second)
}

/// A count in the documents of a side that have it.
struct Counted<'s> {
    subjects: Vec<&'s Subject<'s>>,
    /// The count and its units in each.
    totals: Vec<Round>,
}

impl<'s> Counted<'s> {
    /// Fails if no document counted it.
    fn of(subjects: &'s [Subject<'s>], count: Count, unit: Unit) -> Result<Self, String> {
        let counted: Vec<&Subject<'_>> =
            subjects.iter().filter(|subject| subject.uncounted(count, unit).is_none()).collect();
        if counted.is_empty()
            && let Some(why) = subjects.first().and_then(|subject| subject.uncounted(count, unit))
        {
            return Err(why);
        }
        let known = counted.into_iter().filter_map(|subject| Some((subject, subject.total(count, unit)?)));
        let (subjects, totals) = known.unzip();
        Ok(Self { subjects, totals })
    }

    /// The figure of each run.
    fn values(&self) -> Vec<f64> {
        self.totals.iter().map(|total| total.amount / total.units).collect()
    }

    /// The figure of all runs; `None` if no document has it.
    fn value(&self, sample: Sample) -> Option<f64> {
        let value = match sample {
            Sample::Runs => mean(&self.values()),
            Sample::Rounds => {
                let sum = |of: fn(&Round) -> f64| self.totals.iter().map(of).sum::<f64>();
                sum(|total| total.amount) / sum(|total| total.units)
            }
        };
        Some(value).filter(|value| value.is_finite())
    }

    /// The largest share of calls that a document lost.
    fn lost_share(&self) -> f64 {
        self.subjects.iter().map(|subject| subject.lost_share()).fold(0.0, f64::max)
    }
}

/// A count before and after.
fn row(subjects: Both<&[Subject<'_>]>, count: Count, unit: Unit, sample: Sample) -> Row {
    let row = Row { stage: count.stage, ..Row::new(count.quantity, unit) };
    let counted = |side: Side, subjects| {
        Counted::of(subjects, count, unit).map_err(|why| format!("{}: not counted: {why}", side.word()))
    };
    let of_before = counted(Side::Before, subjects.before);
    let counted =
        of_before.and_then(|before| Ok(Both { before, after: counted(Side::After, subjects.after)? }));
    let counted = match counted {
        Ok(counted) => counted,
        Err(reason) => return Row { reason: Some(reason), ..row },
    };
    let numbers = counted.as_ref().map(|side| side.totals.len());
    let row = Row { runs_before: numbers.before, runs_after: numbers.after, ..row };
    let figures = counted.as_ref().map(|side| side.value(sample));
    let (Some(before), Some(after)) = (figures.before, figures.after) else {
        let reason = Some("not measured in both".to_owned());
        return Row { before: figures.before, after: figures.after, reason, ..row };
    };
    let lost = match count.quantity {
        Quantity::Io => 0.0,
        _ => counted.before.lost_share() + counted.after.lost_share(),
    };
    match interval(counted.as_ref(), count, unit, sample) {
        _ if lost > LOST_MAX => {
            let reason = format!("{:.1} % of the calls were not counted", lost * 100.0);
            Row { before: Some(before), after: Some(after), reason: Some(reason), ..row }
        }
        Ok(interval) if before > 0.0 => {
            row.with_figures(before, after, "").with_interval(interval.with_lost(lost), sample)
        }
        Ok(_) => row.with_figures(before, after, ""),
        Err(reason) => row.with_figures(before, after, reason),
    }
}

/// The ratio with its interval, or why there is none.
fn interval(counted: Both<&Counted<'_>>, count: Count, unit: Unit, sample: Sample) -> Result<Ratio, String> {
    let all = || counted.before.subjects.iter().chain(&counted.after.subjects);
    if count.quantity == Quantity::CpuWithoutWatchingNs && !all().all(|subject| subject.knows_watching()) {
        return Err("what watching added is known only approximately".to_owned());
    }
    let rates = match sample {
        Sample::Runs => rates_of_runs(counted)?,
        Sample::Rounds => rates_of_rounds(counted, count, unit)?,
    };
    let ratio = rates.before.zip(rates.after).and_then(|(before, after)| Ratio::of(&after, &before));
    ratio.ok_or_else(|| COULD_BE_0.to_owned())
}

/// Each side's rate, by how much its runs differ.
fn rates_of_runs(counted: Both<&Counted<'_>>) -> Result<Both<Option<Rate>>, String> {
    match too_few_runs(counted.map(|side| side.totals.len())) {
        Some(reason) => Err(reason),
        None => Ok(counted.map(|side| Rate::of_runs(&side.values()))),
    }
}

/// Each side's rate, by how much the intervals of its documents differ.
fn rates_of_rounds(
    counted: Both<&Counted<'_>>,
    count: Count,
    unit: Unit,
) -> Result<Both<Option<Rate>>, String> {
    let rounds = |(side, counted): (Side, &Counted<'_>)| -> Result<Vec<Vec<Round>>, String> {
        let of_each = counted.subjects.iter().map(|subject| subject.rounds(count, unit));
        of_each.collect::<Result<_, _>>().map_err(|why| format!("{}: {why}", side.word()))
    };
    let [before, after] = counted.with_sides();
    let rounds = Both { before: rounds(before)?, after: rounds(after)? };
    for (side, rounds) in rounds.as_slices().with_sides() {
        check_number(side, rounds)?;
    }
    Ok(rounds.as_slices().map(Rate::pooled))
}

/// Fails if there are too few rounds for an interval.
fn check_number(side: Side, runs: &[Vec<Round>]) -> Result<(), String> {
    let side = side.word();
    match runs.iter().flatten().filter(|round| round.amount != 0.0 || round.units != 0.0).count() {
        ROUNDS_MIN.. => Ok(()),
        1 => Err(format!("{side}: one interval: no confidence interval")),
        number => Err(format!("{side}: {number} intervals: a confidence interval needs {ROUNDS_MIN}")),
    }
}
