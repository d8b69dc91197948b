//! What each DMA path adds to each workload, all at once.

use super::family::{Chart, Family, Group};
use crate::cost::Cost;
use crate::platform::Line;
use crate::{quantity, svg};
use escape::terminal::plain;
use maud::{Markup, html};
use std::collections::BTreeSet;
use toll::{DmaPath, TollSheet};

/// Said of what may be chance.
pub(super) const UNSURE: &str =
    "May be chance: windows of both DMA paths overlap, from the smallest to the 99th percentile";

/// Whether there is anything to show.
pub(super) fn has_any(families: &[Family]) -> bool {
    families.iter().flat_map(Family::lines).any(|line| line.added().is_some())
}

/// The table: a row for each workload, a column for each sheet that is compared with another.
pub(super) fn section(sheets: &[TollSheet], families: &[Family]) -> Markup {
    if !has_any(families) {
        return html! {};
    }
    let bodies: Vec<Vec<Row>> = families.iter().map(rows).filter(|rows| !rows.is_empty()).collect();
    let columns = columns(sheets, bodies.iter().flatten());
    let is_control = |column: &Column| sheets[column.place].dma_path.is_untranslated();
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "What each DMA path adds to an I/O" }
            div.scroll {
                table.heat {
                    caption { "Instructions over the untranslated DMA path of the same machine and kernel, in percent" }
                    thead {
                        tr {
                            th scope="col" { "workload" }
                            @for column in &columns { (head(column, &sheets[column.place])) }
                        }
                    }
                    @for rows in &bodies { tbody { @for row in rows { (self::row(row, &columns)) } } }
                }
            }
            p.remark { "Where windows of both DMA paths overlap, from the smallest to the 99th percentile, it may be chance: a ? and no colour." }
            @if columns.iter().any(is_control) {
                p.remark {
                    "A second untranslated DMA path pays nothing: what its column shows is how far a workload varies from \
                     boot to boot, as streams do that are cut into other packets."
                }
            }
        }
    }
}

/// A sheet that is compared with another.
struct Column {
    place: usize,
    /// Whether it is the first of its machine and kernel.
    begins: bool,
}

/// The sheets of the rows, those of one machine and kernel together, cheapest DMA path first.
fn columns<'r>(sheets: &[TollSheet], rows: impl Iterator<Item = &'r Row<'r>>) -> Vec<Column> {
    let mut known: BTreeSet<(&str, DmaPath, usize)> = BTreeSet::new();
    for (group, _, line) in rows.flat_map(|row| &row.cells).filter(|(_, _, line)| line.added().is_some()) {
        known.insert((&group.platform, sheets[line.place].dma_path, line.place));
    }
    let mut before = None;
    let column = |(platform, _, place)| Column { place, begins: before.replace(platform) != Some(platform) };
    known.into_iter().map(column).collect()
}

fn head(column: &Column, sheet: &TollSheet) -> Markup {
    let cost = Cost::of(sheet.dma_path);
    html! {
        th.begins[column.begins] scope="col" title=(sheet.dma_path) {
            span.upright { a href=(format!("#sheet-{}", column.place + 1)) { (plain(&sheet.preset)) } }
            svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
        }
    }
}

/// A workload with all its bars.
struct Row<'f> {
    workload: &'f str,
    cells: Vec<(&'f Group<'f>, &'f Chart<'f>, &'f Line<'f>)>,
}

/// The workloads to which any DMA path adds anything, in the order of the family.
fn rows<'f>(family: &'f Family<'f>) -> Vec<Row<'f>> {
    let of_group = |group: &'f Group<'f>| group.charts.iter().map(move |chart| (group, chart));
    let mut charts: Vec<_> = family.groups.iter().flat_map(of_group).collect();
    charts.sort_by_key(|(_, chart)| chart.number);
    let mut rows: Vec<Row> = Vec::new();
    for (group, chart) in charts {
        let cells = chart.lines.iter().map(|line| (group, chart, line));
        match rows.iter_mut().find(|row| row.workload == chart.workload) {
            Some(known) => known.cells.extend(cells),
            None => rows.push(Row { workload: &chart.workload, cells: cells.collect() }),
        }
    }
    let adds =
        |row: &Row| row.cells.iter().any(|(_, _, line)| line.added().is_some_and(|added| added != 0.0));
    rows.retain(adds);
    rows
}

fn row(row: &Row, columns: &[Column]) -> Markup {
    let of = |column: &Column| row.cells.iter().find(|(_, _, line)| line.place == column.place);
    html! {
        tr {
            th scope="row" { (row.workload) }
            @for column in columns {
                @match of(column).and_then(|(_, chart, line)| Some((chart, line, line.added()?))) {
                    Some((chart, line, added)) => (cell(column, chart, added, line.stands_apart())),
                    None => td.begins[column.begins] {},
                }
            }
        }
    }
}

fn cell(column: &Column, chart: &Chart, added: f64, sure: bool) -> Markup {
    // Twice the instructions are as dark as it gets.
    let heat = if sure { (added.clamp(0.0, 1.0) * 55.0).round() } else { 0.0 };
    let shown = quantity::signed_percent(added);
    let shown = shown.trim_end_matches(" %");
    let nothing = matches!(shown, "+0.0" | "-0.0");
    let doubtful = !sure && !nothing;
    html! {
        td.number.begins[column.begins] style=(format!("--heat:{heat}%")) {
            a.unsure[!sure] href=(format!("#chart-{}", chart.number)) title=[doubtful.then_some(UNSURE)] {
                @if nothing { "0" } @else { (shown) } @if doubtful { "?" }
            }
        }
    }
}
