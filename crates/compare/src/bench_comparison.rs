//! Two documents of `iotoll bench`, compared.

use crate::benched::{Figure, figures, memory_types};
use crate::comparison::{Comparison, Difference, Doubt, Group, GroupKind, Row, Side, Source};
use crate::difference::{differences, doubts_of_machines, joined};
use crate::document::{Benchmark, DocumentError, Kind, read};
use crate::head::{ReadHead, Settings};
use crate::median_ratio::{ROUNDS_MAX, median_ratio};
use crate::quantity::Quantity;
use std::collections::BTreeMap;

/// Compares two documents of a benchmark. Each is a text and the name of its file.
///
/// # Errors
/// [`DocumentError`] if one is not such a document.
pub(crate) fn compare_benched(
    of: Benchmark,
    before: (&str, &str),
    after: (&str, &str),
) -> Result<Comparison, DocumentError> {
    let kind = Kind::Bench(of);
    let heads = [before, after].map(|(text, file)| read::<ReadHead>(text, file, kind));
    let [head_before, head_after] = heads;
    let (head_before, head_after) = (head_before?, head_after?);
    let settings = |(text, file)| read::<Settings>(text, file, kind);
    let mut differences = differences(&head_before, &head_after);
    differences.extend(settings_differences(&settings(before)?, &settings(after)?));
    differences.extend(memory_type_differences(
        &memory_types(of, before.0, before.1)?,
        &memory_types(of, after.0, after.1)?,
    ));
    let figures_before = figures(of, before.0, before.1)?;
    let figures_after = figures(of, after.0, after.1)?;
    let mut doubts = doubts_of_machines(&head_before, &head_after);
    doubts.extend(doubts_of_cases(&figures_before, &figures_after));
    Ok(Comparison {
        documents: kind.schema(),
        groups: groups(&figures_before, &figures_after),
        before: Source::new(before.1, head_before),
        after: Source::new(after.1, head_after),
        differences,
        doubts: joined(doubts),
    })
}

/// Settings of the runs that differ.
fn settings_differences(before: &Settings, after: &Settings) -> Vec<Difference> {
    let mut names: Vec<&String> = before.settings.keys().chain(after.settings.keys()).collect();
    names.sort();
    names.dedup();
    let value = |settings: &Settings, name: &str| settings.settings.get(name).map(ToString::to_string);
    let pairs = names.into_iter().map(|name| (name, value(before, name), value(after, name)));
    let different = pairs.filter(|(_, before, after)| before != after);
    different
        .map(|(name, before, after)| Difference { what: format!("setting {name}"), before, after })
        .collect()
}

/// Memories that are of another type.
fn memory_type_differences(
    before: &BTreeMap<String, Option<String>>,
    after: &BTreeMap<String, Option<String>>,
) -> Vec<Difference> {
    let both = before.iter().filter_map(|(name, before)| Some((name, before, after.get(name)?)));
    let different = both.filter(|(_, before, after)| before != after);
    different
        .map(|(name, before, after)| Difference {
            what: format!("memory type of {name}"),
            before: before.clone(),
            after: after.clone(),
        })
        .collect()
}

type Key<'f> = (&'f str, &'f str, Quantity);

/// What both documents must have in common to be compared: case, contestant and quantity.
fn key(figure: &Figure) -> Key<'_> {
    (&figure.case, &figure.contestant, figure.quantity)
}

fn by_key(figures: &[Figure]) -> BTreeMap<Key<'_>, &Figure> {
    figures.iter().map(|figure| (key(figure), figure)).collect()
}

/// The number of figures that only one document has.
fn doubts_of_cases(before: &[Figure], after: &[Figure]) -> Vec<Doubt> {
    let sides = [(Side::Before, before, by_key(after)), (Side::After, after, by_key(before))];
    let doubt = |(side, figures, others): (Side, &[Figure], BTreeMap<Key<'_>, &Figure>)| {
        let number = figures.iter().filter(|figure| !others.contains_key(&key(figure))).count();
        let figures = if number == 1 { "1 figure is" } else { &format!("{number} figures are") };
        (number > 0).then(|| Doubt { side: Some(side), words: format!("{figures} in this document alone") })
    };
    sides.into_iter().filter_map(doubt).collect()
}

/// A group for each case that both documents have.
fn groups(before: &[Figure], after: &[Figure]) -> Vec<Group> {
    let others = by_key(after);
    let mut groups: Vec<Group> = Vec::new();
    let mut places = BTreeMap::new();
    for figure in before {
        let Some(after) = others.get(&key(figure)) else { continue };
        let place = *places.entry(figure.case.as_str()).or_insert_with(|| {
            let name = figure.case.clone();
            groups.push(Group { kind: GroupKind::Case, name, explanations: Vec::new(), rows: Vec::new() });
            groups.len() - 1
        });
        groups[place].rows.push(row(figure, after));
    }
    groups
}

/// A figure before and after. With an interval, the ratio is the median of the ratios of all rounds.
fn row(before: &Figure, after: &Figure) -> Row {
    let contestant = Some(before.contestant.clone());
    let row = Row { contestant, ..Row::new(before.quantity, before.unit) };
    let is_zero =
        |figure: &Figure| !figure.rounds.is_empty() && figure.rounds.iter().all(|round| *round == 0.0);
    let reason = match before.rounds.len().max(after.rounds.len()) {
        1.. if is_zero(before) != is_zero(after) => {
            format!("every round of {} is 0", if is_zero(before) { "BEFORE" } else { "AFTER" })
        }
        0 => "the documents have no rounds: no confidence interval".to_owned(),
        number if number > ROUNDS_MAX => {
            format!("{number} rounds: no confidence interval; expected at most {ROUNDS_MAX}")
        }
        _ => "too few rounds, or one took no time: no confidence interval".to_owned(),
    };
    let row = row.with_figures(before.median, after.median, reason);
    match median_ratio(&after.rounds, &before.rounds).filter(|_| row.ratio.is_some()) {
        Some(interval) => row.with_interval(interval),
        None => row,
    }
}
