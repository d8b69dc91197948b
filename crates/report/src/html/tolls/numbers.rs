//! What a chart draws, exactly.

use super::family::Chart;
use super::stages;
use crate::platform::Line;
use crate::{quantity, toll_text};
use escape::terminal::plain;
use maud::{Markup, html};
use toll::{Event, Stage, Toll};

/// All counts per I/O, a column for each DMA path.
pub(super) fn table(chart: &Chart) -> Markup {
    let lines = &chart.lines;
    let passed = |stage: &Stage| lines.iter().any(|line| stages::of(line.toll, *stage) > 0.0);
    let counted = |event: &Event| lines.iter().any(|line| line.toll.events.contains_key(event));
    html! {
        div.scroll {
            table.exact {
                caption { "Per I/O; after a sign, how much that is over the untranslated DMA path." }
                thead {
                    tr {
                        th scope="col" { "count" }
                        @for line in lines {
                            th.number scope="col" { (line.sheet.dma_path) br; (plain(&line.sheet.preset)) }
                        }
                    }
                }
                tbody {
                    (row("instructions, median", lines, |line| with(line.instructions(), line.over.as_ref().map(|over| over.instructions))))
                    (row("smallest", lines, |line| spread(line.toll, line.toll.instructions.min)))
                    (row("99th percentile", lines, |line| spread(line.toll, line.toll.instructions.p99)))
                    (row("largest", lines, |line| spread(line.toll, line.toll.instructions.max)))
                    (row("windows at the median", lines, |line| at_median(line.toll)))
                    (row("in user mode", lines, |line| spread(line.toll, line.toll.user)))
                    (row("in the kernel", lines, |line| spread(line.toll, line.toll.kernel)))
                }
                tbody {
                    @for stage in stages::along_the_bar().filter(passed) {
                        (row(stage.word(), lines, |line| of_stage(line, stage)))
                    }
                }
                tbody {
                    @for event in Event::ALL.into_iter().filter(counted) {
                        (row(event.word(), lines, |line| of_event(line, event)))
                    }
                }
            }
        }
    }
}

fn row(name: &str, lines: &[Line], cell: impl Fn(&Line) -> Markup) -> Markup {
    html! {
        tr {
            th scope="row" { (name) }
            @for line in lines { td.number { (cell(line)) } }
        }
    }
}

/// An amount with its change, if there is one.
fn with(amount: f64, change: Option<f64>) -> Markup {
    html! { (quantity::per_io(amount)) (more(change)) }
}

fn more(change: Option<f64>) -> Markup {
    html! {
        @if let Some(change) = change.filter(|change| *change != 0.0) {
            " " span.absent { (quantity::change(change)) }
        }
    }
}

fn spread(toll: &Toll, window_count: u64) -> Markup {
    with(toll.per_io(window_count), None)
}

fn at_median(toll: &Toll) -> Markup {
    html! { (quantity::grouped(u64::from(toll.instructions.at_median))) " of " (quantity::grouped(u64::from(toll.windows.get()))) }
}

fn of_stage(line: &Line, stage: Stage) -> Markup {
    let change = line.over.as_ref().and_then(|over| over.stages.get(&stage).copied());
    with(stages::of(line.toll, stage), change)
}

fn of_event(line: &Line, event: Event) -> Markup {
    html! {
        @match toll_text::happened(line.toll, event) {
            happened if happened.is_empty() => span.absent { "not counted" },
            happened => { (happened) (more(line.more(event))) }
        }
    }
}
