//! The page of a sweep: what limits, and how a figure follows from each axis.

use crate::page::drawing::{Drawing, Kind, Line, Plot};
use crate::page::fact::Fact;
use crate::page::quantity::{count, figure, grouped};
use crate::page::table::{Row, Table};
use crate::page::{Block, Details, Page};
use escape::terminal::plain;
use sweep::{
    AxisEffect, AxisValue, Curve, ErrorCount, Figure, Group, Interaction, InteractionRow, Range, Summary,
    VarianceShare,
};
use toll::Estimate;

/// Columns for the names of facts.
const NAMES: usize = 12;
/// Values of an axis that are shown at most, and errors.
const ROWS_MAX: usize = 50;
/// The least share of two axes together that is shown.
const SHARE_MIN: f64 = 0.001;

/// A sweep on one page. `source` is the folder of its results.
pub fn sweep_summary(summary: &Summary, source: &str) -> Page {
    let mut page = Page::titled(format!("Sweep: {}", plain(&summary.what)));
    page.facts(
        vec![
            Fact::known("folder", &plain(source)),
            Fact::known("model", &plain(&summary.model)),
            Fact::known("points", &points(summary)),
        ],
        NAMES,
    );
    add_doubts(&mut page, summary);
    add_limits(&mut page, summary);
    if let Some(figure) = &summary.figure {
        add_shares(&mut page, figure);
        add_effects(&mut page, figure);
        add_pair(&mut page, figure);
        add_extremes(&mut page, figure);
        let others: Vec<String> =
            summary.figures.iter().filter(|name| **name != figure.name).map(|name| plain(name)).collect();
        if !others.is_empty() {
            page.remark(format!("Other figures for --figure: {}", others.join(", ")));
        }
    }
    add_errors(&mut page, summary);
    add_machine(&mut page, summary);
    page
}

/// How many points there are, and how many have no result.
fn points(summary: &Summary) -> String {
    let failed: usize = summary.errors.iter().map(|error| error.points).sum();
    let of_plan = summary.points_of_plan.filter(|points| *points > summary.points as u64);
    let missing = of_plan.map(|points| format!(" of {}: the sweep has not ended", grouped(points)));
    let several = (summary.plans > 1).then(|| {
        format!(
            " of {} plans, with other values on the axes: whether some are missing is not known",
            summary.plans
        )
    });
    let ends = match failed {
        0 => "all with a result".to_owned(),
        _ => format!("{} of them with an error instead of a result", grouped(failed as u64)),
    };
    let points = grouped(summary.points as u64);
    missing.or(several).map_or_else(|| format!("{points}, {ends}"), |of| format!("{points}{of}; {ends}"))
}

/// Reasons to doubt what follows.
fn add_doubts(page: &mut Page, summary: &Summary) {
    if summary.unsteady > 0 {
        page.remark(format!(
            "{} in no steady state: more transfers, or a longer time, may give other figures.",
            count(summary.unsteady, "point")
        ));
    }
    if let Some(seeds) = summary.shared_seeds {
        page.warnings(&[format!(
            "points that differ in their seed alone share runs: each runs with {}, and theirs are closer. Intervals are too narrow",
            count(usize::try_from(seeds).unwrap_or(usize::MAX), "seed")
        )]);
    }
}

fn add_limits(page: &mut Page, summary: &Summary) {
    if summary.limits.is_empty() {
        return;
    }
    page.heading("What limits");
    let rows = summary.limits.iter().map(|limit| row(plain(&limit.part), vec![limit.points.to_string()]));
    page.table(Table::with_wrapped_names("part of the machine", &["points"], rows.collect()));
}

/// Which axes the figure depends on, and how much.
fn add_shares(page: &mut Page, figure: &Figure) {
    let varied = figure.effects.iter().filter(|effect| effect.values.len() > 1).count();
    if varied < 2 {
        return;
    }
    page.heading(format!("What {} depends on", plain(&figure.name)));
    if figure.shares.is_empty() {
        let why = "Not told: a combination of values has no result, or fewer seeds than others; or all figures are the same.";
        return page.prose(why, 0);
    }
    let is_shown = |share: &&VarianceShare| share.fields.len() == 1 || share.share >= SHARE_MIN;
    let shown: Vec<&VarianceShare> = figure.shares.iter().filter(is_shown).collect();
    let rows = shown
        .iter()
        .take(ROWS_MAX)
        .map(|share| row(plain(&share.fields.join(" and ")), vec![percentage(share.share)]));
    page.table(Table::with_wrapped_names("field", &["share of variance"], rows.collect()));
    add_rest(page, shown.len(), "field");
    page.remark(
        "How much of the difference between points goes with each field, and with two together beyond what each does alone. Other values on the \
         axes give other shares. What is missing from 100 % goes with more fields, or is small. Chance between runs is in all of them.",
    );
}

/// A share: `83 %`, `0.4 %`.
fn percentage(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        10.0.. => format!("{percent:.0} %"),
        0.05.. => format!("{percent:.1} %"),
        _ => "below 0.1 %".to_owned(),
    }
}

/// The figure by two axes: those that depend on each other most, or the only ones.
fn add_pair(page: &mut Page, figure: &Figure) {
    // A terminal shows no drawing, so a heading needs a table.
    if let Some(Interaction { row_field, column_field, .. }) = &figure.interaction {
        page.heading(format!("{} by {} and {}", plain(&figure.name), plain(row_field), plain(column_field)));
    }
    add_curves(page, figure);
    if let Some(table) = &figure.interaction {
        add_interaction(page, table, figure.effects.len() > 2);
    }
}

/// A figure by two axes, of which there may be others.
fn add_interaction(page: &mut Page, table: &Interaction, has_others: bool) {
    let Interaction { column_field, columns, rows, .. } = table;
    let titles: Vec<String> = columns.iter().map(|value| plain(value)).collect();
    let cell = |median: &Option<f64>| median.map_or_else(|| "no result".to_owned(), self::figure);
    let cells = |one: &InteractionRow| row(plain(&one.value), one.medians.iter().map(cell).collect());
    let shown = rows.iter().take(ROWS_MAX).map(cells);
    page.table(Table { names: "", wraps_names: true, titles, rows: shown.collect() });
    add_rest(page, rows.len(), "value");
    let over = if has_others { "; medians over all other axes" } else { "" };
    page.remark(format!("Columns are values of {}{over}.", plain(column_field)));
}

/// Says how many rows of so many a table does not show.
fn add_rest(page: &mut Page, all: usize, noun: &str) {
    if all > ROWS_MAX {
        page.remark(format!(
            "{} not shown; --json has all.",
            count(all - ROWS_MAX, &format!("further {noun}"))
        ));
    }
}

/// A table for each axis that has several values, and a drawing where these are numbers.
fn add_effects(page: &mut Page, figure: &Figure) {
    let (name, mut is_over_others) = (plain(&figure.name), false);
    for effect in figure.effects.iter().filter(|effect| effect.values.len() > 1) {
        let field = plain(&effect.field);
        page.heading(format!("{name} by {field}"));
        let has_limits = effect.values.iter().any(|value| value.limit_groups > 0);
        let has_range = effect.values.iter().any(|value| value.groups > 1);
        let groups = effect.values[0].groups;
        let has_gaps = effect.values.iter().any(|value| value.groups != groups);
        is_over_others |= has_range;
        let mut titles = if has_range { vec!["median", "least", "greatest"] } else { vec![name.as_str()] };
        titles.extend(has_limits.then_some("limits most"));
        titles.extend(has_gaps.then_some("points"));
        let rows = effect.values.iter().take(ROWS_MAX).map(|value| {
            let cell = |of: fn(&Range) -> f64| {
                value.range.as_ref().map_or_else(|| "no result".to_owned(), |range| self::figure(of(range)))
            };
            let mut cells = vec![cell(|range| range.median)];
            if has_range {
                cells.extend([cell(|range| range.least), cell(|range| range.greatest)]);
            }
            cells.extend(has_limits.then(|| limits_most(value)));
            cells.extend(has_gaps.then(|| value.groups.to_string()));
            row(plain(&value.value), cells)
        });
        page.table(Table::with_wrapped_names("value", &titles, rows.collect()));
        add_rest(page, effect.values.len(), "value");
        if figure.curves.is_empty() {
            effect_plot(effect, &name).into_iter().for_each(|drawing| page.push(Block::Drawing(drawing)));
        }
    }
    if is_over_others {
        page.remark("Median, least and greatest are over the values of all other axes.");
    }
}

/// What limits most points of a value, with their share if it is not all.
fn limits_most(value: &AxisValue) -> String {
    if value.limit_groups == 0 {
        return String::new();
    }
    let percent = value.limit_groups as f64 / value.groups as f64 * 100.0;
    match &value.limit {
        None => format!("several, each {percent:.0} %"),
        Some(limit) if value.limit_groups == value.groups => plain(limit),
        // What is not all is not called so.
        Some(limit) => format!("{}, {:.0} %", plain(limit), percent.min(99.0)),
    }
}

/// The median, least and greatest figure by the numbers of an axis; none of words.
fn effect_plot(effect: &AxisEffect, figure: &str) -> Option<Drawing> {
    let number = |value: &AxisValue| value.value.parse().ok().filter(|number: &f64| *number >= 0.0);
    let ranges = effect.values.iter().filter_map(|value| Some((value, value.range?)));
    let ranges: Vec<(f64, Range)> =
        ranges.map(|(value, range)| Some((number(value)?, range))).collect::<Option<_>>()?;
    let points = |of: fn(&Range) -> f64| ranges.iter().map(|(x, range)| (*x, of(range))).collect::<Vec<_>>();
    let lines = [
        ("greatest", points(|range| range.greatest)),
        ("median", points(|range| range.median)),
        ("least", points(|range| range.least)),
    ];
    Some(plot(
        lines.map(|(name, points)| Line { name: name.to_owned(), points }).into(),
        &plain(&effect.field),
        figure,
    ))
}

fn add_curves(page: &mut Page, figure: &Figure) {
    let name = plain(&figure.name);
    let line = |curve: &Curve| Line {
        name: curve
            .of
            .as_ref()
            .map_or_else(|| name.clone(), |of| plain(&format!("{} = {}", of.field, of.value))),
        points: curve.points.iter().map(|point| (point.x, point.figure.mean)).collect(),
    };
    let lines: Vec<Line> = figure.curves.iter().map(line).collect();
    let is_drawn = lines.iter().flat_map(|line| &line.points).all(|(x, y)| *x >= 0.0 && *y >= 0.0);
    if let Some(curve) = figure.curves.first().filter(|_| is_drawn) {
        page.push(Block::Drawing(plot(lines, &plain(&curve.x), &name)));
    }
}

fn plot(lines: Vec<Line>, x_title: &str, y_title: &str) -> Drawing {
    Drawing(Kind::Plot(Plot {
        name: format!("{y_title} by {x_title}"),
        x_title: x_title.to_owned(),
        y_title: y_title.to_owned(),
        lines,
        mark: None,
    }))
}

/// The points with the least and the greatest figure.
fn add_extremes(page: &mut Page, figure: &Figure) {
    page.heading(format!("Least and greatest {}", plain(&figure.name)));
    let titles: Vec<&str> = figure
        .extremes
        .first()
        .map_or_else(Vec::new, |group| group.values.iter().map(|value| value.field.as_str()).collect());
    let mut titles: Vec<String> = titles.into_iter().map(plain).collect();
    titles.push("limit".to_owned());
    let cells = |group: &Group| {
        let values = group.values.iter().map(|value| plain(&value.value));
        values.chain([group.limit.as_deref().map(plain).unwrap_or_default()]).collect()
    };
    let rows = figure.extremes.iter().map(|group| row(with_interval(&group.figure), cells(group)));
    page.table(Table { names: "figure", wraps_names: true, titles, rows: rows.collect() });
    let over = match (figure.seeds_fewest, figure.seeds_most) {
        (_, 1) => "the runs of each point".to_owned(),
        (fewest, most) if fewest == most => format!("{most} values of seed"),
        (1, most) => {
            format!("up to {most} values of seed; those of points with one value, over the point's own runs")
        }
        (fewest, most) => format!("{fewest} to {most} values of seed"),
    };
    if figure.extremes.iter().any(|group| group.figure.low.is_some()) {
        page.remark(format!("Intervals of 95 % are over {over}."));
    } else {
        page.remark("No intervals: each point is one run.");
    }
}

/// A figure, with its interval if it has one.
fn with_interval(estimate: &Estimate) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if low < high => {
            format!("{} ({} to {})", figure(estimate.mean), figure(low), figure(high))
        }
        _ => figure(estimate.mean),
    }
}

fn add_errors(page: &mut Page, summary: &Summary) {
    if summary.errors.is_empty() {
        return;
    }
    page.heading("Points without a result");
    let cells = |one: &ErrorCount| row(plain(&one.error), vec![one.points.to_string()]);
    let rows = summary.errors.iter().take(ROWS_MAX).map(cells);
    page.table(Table::with_wrapped_names("error", &["points"], rows.collect()));
    add_rest(page, summary.errors.len(), "error");
}

/// The machine that all points have in common, folded.
fn add_machine(page: &mut Page, summary: &Summary) {
    let Some(machine) = &summary.machine else { return };
    let mut lines = Page::default();
    machine.lines().for_each(|line| lines.line(plain(line)));
    page.push(Block::Details(Details {
        summary: "What all points have in common".to_owned(),
        anchor: "machine".to_owned(),
        is_open: false,
        blocks: lines.blocks,
    }));
}

fn row(name: String, cells: Vec<String>) -> Row {
    Row { name, ink: None, cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_limits_most_has_its_share() {
        let check = |limit: Option<&str>, limit_groups: usize, expected: &str| {
            let limit = limit.map(ToOwned::to_owned);
            let value = AxisValue { value: "8".to_owned(), groups: 4, range: None, limit, limit_groups };
            assert_eq!(limits_most(&value), expected);
        };
        check(Some("link"), 4, "link");
        check(Some("link"), 3, "link, 75 %");
        check(None, 2, "several, each 50 %");
        check(None, 0, "");
    }
}
