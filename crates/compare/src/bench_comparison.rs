//! Documents of `iotoll bench`, compared.

use crate::benched::{Figure, figures, memory_types};
use crate::both::Both;
use crate::comparison::{Comparison, Group, GroupKind, Row, Runs, Side, Source};
use crate::difference::{
    DraftDoubt, Statement, differences, doubts_of_machines, doubts_within_sides, head_statements, joined,
    on_one_side,
};
use crate::document::{Benchmark, DocumentError, Kind, read};
use crate::head::{ReadHead, Settings};
use crate::median_ratio::{ROUNDS_MAX, median_ratio};
use crate::quantity::Quantity;
use crate::rate::Rate;
use crate::ratio::Ratio;
use crate::sample::{Sample, mean, too_few_runs};
use bench::Summary;
use std::collections::{BTreeMap, BTreeSet};

/// Memory types by the memory's name.
type MemoryTypes = BTreeMap<String, Option<String>>;

/// Compares documents of a benchmark. Each is a text and the name of its file.
///
/// # Errors
/// [`DocumentError`] if one is not such a document.
pub(crate) fn compare_benched(
    of: Benchmark,
    texts: Both<&[(&str, &str)]>,
    doubts: Vec<DraftDoubt>,
) -> Result<Comparison, DocumentError> {
    let kind = Kind::Bench(of);
    let read_all = |texts: &[(&str, &str)]| texts.iter().map(|text| Benched::read(of, *text)).collect();
    let documents: Both<Vec<Benched>> = texts.try_map(read_all)?;
    let heads = documents.as_ref().map(|all| all.iter().map(|one| one.head.clone()).collect::<Vec<_>>());
    let mut statements = head_statements(heads.as_slices());
    statements.extend(settings_statements(documents.as_slices()));
    statements.extend(memory_type_statements(documents.as_slices()));
    let figures = documents.as_ref().map(|all| Figures::of(all));
    let mut doubts = doubts;
    doubts.extend(doubts_within_sides(&statements));
    doubts.extend(doubts_of_machines(&heads));
    doubts.extend(doubts_of_cases(&figures));
    let files = texts.map(|texts| texts.iter().map(|(_, file)| *file).collect::<Vec<_>>());
    let sample = Sample::of(documents.before.len(), documents.after.len());
    let source = |(head, (_, file)): (ReadHead, &(&str, &str))| Source::new(file, head);
    let sources =
        |heads: Vec<ReadHead>, texts: &[(&str, &str)]| heads.into_iter().zip(texts).map(source).collect();
    let runs = Runs { before: sources(heads.before, texts.before), after: sources(heads.after, texts.after) };
    Comparison::new(
        kind,
        runs,
        differences(&statements),
        joined(doubts, files.as_slices()),
        groups(&figures, sample),
    )
}

/// A document of a benchmark.
struct Benched {
    head: ReadHead,
    settings: Settings,
    memory_types: MemoryTypes,
    figures: Vec<Figure>,
}

impl Benched {
    fn read(of: Benchmark, (text, file): (&str, &str)) -> Result<Self, DocumentError> {
        let kind = Kind::Bench(of);
        Ok(Self {
            head: read(text, file, kind)?,
            settings: read(text, file, kind)?,
            memory_types: memory_types(of, text, file)?,
            figures: figures(of, text, file)?,
        })
    }
}

/// What the runs were asked to measure.
fn settings_statements(documents: Both<&[Benched]>) -> Vec<Statement> {
    let all = || documents.before.iter().chain(documents.after);
    let names: BTreeSet<&String> = all().flat_map(|one| one.settings.settings.keys()).collect();
    let statement = |name: &String| Statement {
        what: format!("setting {name}"),
        values: documents.map(|side| {
            side.iter().map(|one| one.settings.settings.get(name).map(ToString::to_string)).collect()
        }),
    };
    names.into_iter().map(statement).collect()
}

/// Types of the memories that both sides have.
fn memory_type_statements(documents: Both<&[Benched]>) -> Vec<Statement> {
    let names =
        documents.map(|side| side.iter().flat_map(|one| one.memory_types.keys()).collect::<BTreeSet<_>>());
    let statement = |name: &&String| Statement {
        what: format!("memory type of {name}"),
        values: documents
            .map(|side| side.iter().filter_map(|one| one.memory_types.get(*name).cloned()).collect()),
    };
    names.before.intersection(&names.after).map(statement).collect()
}

/// What documents must have in common to be compared: case, contestant and quantity.
type Key<'f> = (&'f str, &'f str, Quantity);

/// The figures of a side: of each the documents that have it, in the order in which they come.
struct Figures<'f> {
    order: Vec<Key<'f>>,
    by_key: BTreeMap<Key<'f>, Vec<&'f Figure>>,
    documents: usize,
}

impl<'f> Figures<'f> {
    fn of(documents: &'f [Benched]) -> Self {
        let mut of = Self { order: Vec::new(), by_key: BTreeMap::new(), documents: documents.len() };
        for figure in documents.iter().flat_map(|document| &document.figures) {
            let key = (figure.case.as_str(), figure.contestant.as_str(), figure.quantity);
            let all = of.by_key.entry(key).or_default();
            if all.is_empty() {
                of.order.push(key);
            }
            all.push(figure);
        }
        of
    }
}

/// The number of figures that only one side has.
fn doubts_of_cases(figures: &Both<Figures<'_>>) -> Vec<DraftDoubt> {
    let Both { before, after } = figures;
    let doubt = |(side, here, other): (Side, &Figures<'_>, &Figures<'_>)| {
        let number = here.order.iter().filter(|key| !other.by_key.contains_key(*key)).count();
        let figures = if number == 1 { "1 figure is" } else { &format!("{number} figures are") };
        let place = on_one_side(here.documents);
        (number > 0).then(|| DraftDoubt::of_side(side, format!("{figures} {place}")))
    };
    [(Side::Before, before, after), (Side::After, after, before)].into_iter().filter_map(doubt).collect()
}

/// A group for each case that both sides have.
fn groups(figures: &Both<Figures<'_>>, sample: Sample) -> Vec<Group> {
    let Both { before, after } = figures;
    let mut groups: Vec<Group> = Vec::new();
    let mut places = BTreeMap::new();
    for key in &before.order {
        let Some((before, after)) = before.by_key.get(key).zip(after.by_key.get(key)) else { continue };
        let place = *places.entry(key.0).or_insert_with(|| {
            let name = key.0.to_owned();
            groups.push(Group { kind: GroupKind::Case, name, explanations: Vec::new(), rows: Vec::new() });
            groups.len() - 1
        });
        groups[place].rows.push(row(Both { before, after }, sample));
    }
    groups
}

/// A figure before and after, from the documents that have it, which is at least one of each side.
fn row(figures: Both<&Vec<&Figure>>, sample: Sample) -> Row {
    let numbers = figures.map(Vec::len);
    let first = figures.before[0];
    let row = Row {
        contestant: Some(first.contestant.clone()),
        runs_before: numbers.before,
        runs_after: numbers.after,
        ..Row::new(first.quantity, first.unit)
    };
    match sample {
        Sample::Runs => row_of_runs(row, figures),
        Sample::Rounds => row_of_rounds(row, figures),
    }
}

/// Means of the medians of runs.
fn row_of_runs(row: Row, figures: Both<&Vec<&Figure>>) -> Row {
    let medians = figures.map(|figures| figures.iter().map(|figure| figure.median).collect::<Vec<f64>>());
    let means = medians.as_slices().map(mean);
    if !means.before.is_finite() || !means.after.is_finite() {
        return Row { reason: Some(TOO_LARGE.to_owned()), ..row };
    }
    let reason = too_few_runs(medians.as_ref().map(Vec::len));
    let interval = || {
        let rates = medians.as_slices().map(Rate::of_runs);
        Ratio::of(&rates.after?, &rates.before?)
    };
    let interval = if reason.is_some() { None } else { interval() };
    let row = row.with_figures(means.before, means.after, reason.unwrap_or_else(|| COULD_BE_0.to_owned()));
    match interval.filter(|_| row.ratio.is_some()) {
        Some(interval) => row.with_interval(interval, Sample::Runs),
        None => row,
    }
}

const TOO_LARGE: &str = "the figures are too large";
/// Why runs give no interval.
pub(crate) const COULD_BE_0: &str = "no confidence interval: it varies so much before that it could be 0";

/// Medians of all rounds. With an interval, the ratio is the median of the ratios of all rounds.
fn row_of_rounds(row: Row, figures: Both<&Vec<&Figure>>) -> Row {
    let rounds = figures
        .map(|figures| figures.iter().flat_map(|figure| figure.rounds.iter().copied()).collect::<Vec<f64>>());
    let is_zero = |rounds: &[f64]| !rounds.is_empty() && rounds.iter().all(|round| *round == 0.0);
    let reason = match rounds.before.len().max(rounds.after.len()) {
        1.. if is_zero(&rounds.before) != is_zero(&rounds.after) => {
            format!("every round of {} is 0", if is_zero(&rounds.before) { "BEFORE" } else { "AFTER" })
        }
        0 => "the documents have no rounds: no confidence interval".to_owned(),
        number if number > ROUNDS_MAX => {
            format!("{number} rounds: no confidence interval; expected at most {ROUNDS_MAX}")
        }
        _ => "too few rounds, or one took no time: no confidence interval".to_owned(),
    };
    let medians = figures.map(|figures| median(figures));
    if !medians.before.is_finite() || !medians.after.is_finite() {
        return Row { reason: Some(TOO_LARGE.to_owned()), ..row };
    }
    let row = row.with_figures(medians.before, medians.after, reason);
    match median_ratio(&rounds.after, &rounds.before).filter(|_| row.ratio.is_some()) {
        Some(interval) => row.with_interval(interval, Sample::Rounds),
        None => row,
    }
}

/// The median of a document, or of all rounds of several; where one of these has no rounds, the mean of the documents' medians.
fn median(figures: &[&Figure]) -> f64 {
    let medians: Vec<f64> = figures.iter().map(|figure| figure.median).collect();
    let rounds = figures.iter().flat_map(|figure| figure.rounds.iter().copied());
    match figures {
        [_] => mean(&medians),
        _ if figures.iter().any(|figure| figure.rounds.is_empty()) => mean(&medians),
        _ => {
            let of_rounds = Summary::of(rounds).map(|summary| summary.median);
            of_rounds.filter(|median| median.is_finite()).unwrap_or_else(|| mean(&medians))
        }
    }
}
