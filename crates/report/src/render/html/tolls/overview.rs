//! The overview: what each DMA path adds to each workload, in one table.

use crate::page::cost::Cost;
use crate::page::quantity;
use crate::render::svg;
use crate::sheets::control::Control;
use crate::sheets::driver::{Chart, Driver, Group};
use crate::sheets::platform::SheetLine;
use escape::terminal::plain;
use maud::{Markup, html};
use std::collections::BTreeSet;
use toll::{DmaPath, TollSheet};

/// The title of a difference that may be chance.
pub(super) const UNSURE: &str = "The sign is uncertain: the 95 % interval over boots contains zero";

/// Whether any sheet is compared with an untranslated DMA path.
pub(super) fn has_comparison(drivers: &[Driver]) -> bool {
    drivers.iter().flat_map(Driver::lines).any(|line| line.added_share().is_some())
}

/// The table: a row for each workload, a column for each sheet that is compared with another.
pub(super) fn section(sheets: &[TollSheet], drivers: &[Driver]) -> Markup {
    if !has_comparison(drivers) {
        return html! {};
    }
    let bodies: Vec<Vec<Row>> = drivers.iter().map(rows).filter(|rows| !rows.is_empty()).collect();
    let columns = columns(sheets, bodies.iter().flatten());
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "What each DMA path adds to an I/O" }
            div.scroll {
                table.heat {
                    caption { "Instructions in the stages of DMA mapping over the untranslated DMA path of the same machine and kernel, in percent of an I/O there" }
                    thead {
                        tr {
                            th scope="col" { "workload" }
                            @for column in &columns { (head(column, &sheets[column.place])) }
                        }
                    }
                    @for rows in &bodies { tbody { @for row in rows { (table_row(row, &columns)) } } }
                }
            }
            p.remark { "Where the 95 % interval over boots contains zero, the sign is uncertain: a ? and no colour." }
            @if let Some(control) = Control::of(drivers.iter().flat_map(Driver::lines)) {
                p.remark {
                    "A second untranslated DMA path is the control, since its stages of DMA mapping should add nothing: "
                    (control.words()) "."
                }
            }
        }
    }
}

/// The column of a sheet that is compared with another.
struct Column {
    /// The sheet's index.
    place: usize,
    /// Whether it is the first column of its machine and kernel.
    begins: bool,
}

/// The columns: sheets of one machine and kernel together, cheapest DMA path first.
fn columns<'r>(sheets: &[TollSheet], rows: impl Iterator<Item = &'r Row<'r>>) -> Vec<Column> {
    let mut known: BTreeSet<(&str, DmaPath, usize)> = BTreeSet::new();
    for (group, _, line) in
        rows.flat_map(|row| &row.cells).filter(|(_, _, line)| line.added_share().is_some())
    {
        known.insert((&group.platform, sheets[line.place].dma_path, line.place));
    }
    let mut before = None;
    let column = |(platform, _, place)| Column { place, begins: before.replace(platform) != Some(platform) };
    known.into_iter().map(column).collect()
}

/// The head of a column: preset and mark of the DMA path.
fn head(column: &Column, sheet: &TollSheet) -> Markup {
    let cost = Cost::of(sheet.dma_path);
    html! {
        th.begins[column.begins] scope="col" title=(sheet.dma_path) {
            span.upright { a href=(format!("#sheet-{}", column.place + 1)) { (plain(&sheet.preset)) } }
            svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
        }
    }
}

/// A workload with the bars of all machines and kernels.
struct Row<'f> {
    workload: &'f str,
    cells: Vec<(&'f Group<'f>, &'f Chart<'f>, &'f SheetLine<'f>)>,
}

/// The driver's workloads to which any DMA path adds instructions, in the page's order.
fn rows<'f>(driver: &'f Driver<'f>) -> Vec<Row<'f>> {
    let of_group = |group: &'f Group<'f>| group.charts.iter().map(move |chart| (group, chart));
    let mut charts: Vec<_> = driver.groups.iter().flat_map(of_group).collect();
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
        |row: &Row| row.cells.iter().any(|(_, _, line)| line.added_share().is_some_and(|added| added != 0.0));
    rows.retain(adds);
    rows
}

/// The row of a workload, with a cell for each column.
fn table_row(row: &Row, columns: &[Column]) -> Markup {
    let of = |column: &Column| row.cells.iter().find(|(_, _, line)| line.place == column.place);
    html! {
        tr {
            th scope="row" { (row.workload) }
            @for column in columns {
                @match of(column).and_then(|(_, chart, line)| Some((chart, line, line.added_share()?))) {
                    Some((chart, line, added)) => (cell(column, chart, added, line.differs_for_certain())),
                    None => td.begins[column.begins] {},
                }
            }
        }
    }
}

/// A share in percent, linked to its chart and coloured by its size.
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
