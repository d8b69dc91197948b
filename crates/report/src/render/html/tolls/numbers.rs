//! The exact numbers of a chart, as a table.

use super::stages;
use crate::page::quantity;
use crate::sheets::driver::Chart;
use crate::sheets::platform::SheetLine;
use crate::sheets::words as toll_words;
use escape::terminal::plain;
use maud::{Markup, html};
use toll::{Estimate, Event, Stage, Toll};

/// The table of all counts per I/O, with a column for each DMA path.
pub(super) fn table(chart: &Chart) -> Markup {
    let lines = &chart.lines;
    let passed =
        |stage: &Stage| lines.iter().any(|line| stages::instructions_per_io(line.toll, *stage) > 0.0);
    let counted = |event: &Event| lines.iter().any(|line| line.toll.events.contains_key(event));
    html! {
        div.scroll {
            table.exact {
                caption { "Per I/O, of the median window; after a sign, how much the medians or means of the boots are over the untranslated DMA path, ± half of the 95 % interval, with ? where the sign is uncertain." }
                thead {
                    tr {
                        th scope="col" { "count" }
                        @for line in lines {
                            th.number scope="col" { (line.sheet.dma_path) br; (plain(&line.sheet.preset)) }
                        }
                    }
                }
                tbody {
                    (row("instructions, median", lines, |line| amount_with_estimate(line.instructions(), line.over.as_ref().map(|over| over.instructions))))
                    (row("smallest", lines, |line| per_io(line.toll, line.toll.instructions.min)))
                    (row("99th percentile", lines, |line| per_io(line.toll, line.toll.instructions.p99)))
                    (row("largest", lines, |line| per_io(line.toll, line.toll.instructions.max)))
                    (row("windows at the median", lines, |line| windows_at_median(line.toll)))
                    (row("in user mode", lines, |line| per_io(line.toll, line.toll.user)))
                    (row("in the kernel", lines, |line| per_io(line.toll, line.toll.kernel)))
                }
                tbody {
                    @for stage in stages::in_bar_order().filter(passed) {
                        (row(stage.word(), lines, |line| stage_cell(line, stage)))
                    }
                }
                tbody {
                    @for event in Event::ALL.into_iter().filter(counted) {
                        (row(event.word(), lines, |line| event_cell(line, event)))
                    }
                }
            }
        }
    }
}

/// A row of the table: its name, and a cell for each DMA path.
fn row(name: &str, lines: &[SheetLine], cell: impl Fn(&SheetLine) -> Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (name) }
            @for line in lines { td.number { (cell(line)) } }
        }
    }
}

/// An amount and its difference from the untranslated DMA path with its interval, if there is one.
fn amount_with_estimate(amount: f64, change: Option<Estimate>) -> Markup {
    html! {
        (quantity::per_io(amount))
        @if let Some(change) = change.filter(|change| change.mean != 0.0) {
            " " span.absent { (quantity::estimate(&change)) }
        }
    }
}

/// The difference from the untranslated DMA path; nothing if there is none.
fn nonzero_change(change: Option<f64>) -> Markup {
    html! {
        @if let Some(change) = change.filter(|change| *change != 0.0) {
            " " span.absent { (quantity::change(change)) }
        }
    }
}

/// A count of a whole window, as a number per I/O.
fn per_io(toll: &Toll, window_count: u64) -> Markup {
    html! { (quantity::per_io(toll.per_io(window_count))) }
}

/// How many windows have exactly the median, and how many windows there are.
fn windows_at_median(toll: &Toll) -> Markup {
    html! { (quantity::grouped(u64::from(toll.instructions.at_median))) " of " (quantity::grouped(u64::from(toll.windows.get()))) }
}

/// The cell of a stage: its instructions per I/O.
fn stage_cell(line: &SheetLine, stage: Stage) -> Markup {
    let change = line.over.as_ref().and_then(|over| over.stages.get(&stage).copied());
    amount_with_estimate(stages::instructions_per_io(line.toll, stage), change)
}

/// The cell of an event: its count per I/O.
fn event_cell(line: &SheetLine, event: Event) -> Markup {
    html! {
        @match toll_words::per_io(line.toll, event) {
            happened if happened.is_empty() => span.absent { "not counted" },
            happened => { (happened) (nonzero_change(line.more_events(event))) }
        }
    }
}
