//! A workload on the DMA paths of one machine and kernel: a bar for each.

use super::family::Chart;
use super::{numbers, overview, stages};
use crate::cost::Cost;
use crate::platform::Line;
use crate::{quantity, svg, toll_text};
use escape::terminal::plain;
use maud::{Markup, html};
use toll::{Event, Toll};

/// Events with a column where any happened; the others are among the exact numbers.
const EVENTS: [Event; 4] =
    [Event::Hypercalls, Event::Invalidations, Event::TableEntries, Event::StringIterations];

/// Places along a bar: hundredths of a percent, so that edges are whole and widths add up.
const SCALE: f64 = 10_000.0;

/// A character of a label takes about this much of a bar.
const LABEL_CHARACTER: u32 = 130;

/// The chart with its exact numbers.
pub(super) fn chart(chart: &Chart) -> Markup {
    let longest = chart.lines.iter().map(Line::instructions).fold(1.0, f64::max);
    let events: Vec<Event> = EVENTS.into_iter().filter(|event| any_happened(chart, *event)).collect();
    html! {
        div.chart #(format!("chart-{}", chart.number)) {
            table.bars {
                caption { b { (chart.workload) } @if let Some(line) = chart.lines.first() { " " (words(line.toll)) } }
                thead {
                    tr {
                        th scope="col" { "DMA path" }
                        th scope="col" { "instructions by stage" }
                        th.number scope="col" { "instructions" }
                        th.number scope="col" { "the DMA path adds" }
                        @for event in &events { th.number.event scope="col" { (spaced(*event)) } }
                    }
                }
                tbody { @for line in &chart.lines { (row(line, longest, &events)) } }
            }
            details { summary { "Exact numbers" } (numbers::table(chart)) }
        }
    }
}

/// What DMA paths add, at a glance.
pub(super) fn glance(chart: &Chart) -> Markup {
    let added = chart.lines.iter().filter_map(Line::added);
    html! { @if let Some(most) = added.max_by(f64::total_cmp) { (quantity::signed_percent(most)) " at most" } }
}

fn words(toll: &Toll) -> String {
    let bytes = if toll.bytes_per_io == 0 {
        String::new()
    } else {
        format!(", {}", quantity::bytes(toll.bytes_per_io))
    };
    plain(&format!("{}{bytes} per I/O", toll.what))
}

fn any_happened(chart: &Chart, event: Event) -> bool {
    let total = |line: &Line| line.toll.events.get(&event).map_or(0, |tally| tally.all.total);
    chart.lines.iter().any(|line| total(line) > 0)
}

fn spaced(event: Event) -> String {
    event.word().replace('-', " ")
}

fn row(line: &Line, longest: f64, events: &[Event]) -> Markup {
    let cost = Cost::of(line.sheet.dma_path);
    html! {
        tr {
            th scope="row" {
                svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
                span.dma_path.(cost.class()) { (line.sheet.dma_path.word()) }
                a.preset href=(format!("#sheet-{}", line.place + 1)) { (plain(&line.sheet.preset)) }
            }
            td.drawn { (bar(line, longest)) }
            td.number data-label="instructions" { b { (quantity::per_io(line.instructions())) } }
            td.number data-label="the DMA path adds" { (adds(line)) }
            @for event in events {
                td.number.event data-label=(spaced(*event)) { (dash(&toll_text::happened(line.toll, *event))) }
            }
        }
    }
}

/// What was not counted is not zero.
fn dash(happened: &str) -> &str {
    if happened.is_empty() { "–" } else { happened }
}

fn adds(line: &Line) -> Markup {
    html! {
        @match (&line.over, line.added()) {
            (Some(over), Some(added)) => {
                (quantity::change(over.instructions)) " "
                @if line.stands_apart() { b { (quantity::signed_percent(added)) } }
                @else { span.unsure title=(overview::UNSURE) { (quantity::signed_percent(added)) "?" } }
            }
            (Some(over), None) => (quantity::change(over.instructions)),
            (None, _) if line.base.is_some() => span.absent { "compared with this" },
            _ => span.absent { "–" },
        }
    }
}

fn bar(line: &Line, longest: f64) -> Markup {
    let name =
        format!("{}: {} instructions", plain(&line.sheet.preset), quantity::per_io(line.instructions()));
    let base = line.base.map(|(_, toll)| place(toll.per_io(toll.instructions.median), longest));
    html! {
        svg.bar width="100%" height="24" role="img" aria-label=(name) {
            @for piece in pieces(line.toll, longest) { (piece) }
            @if let Some(x) = base.filter(|x| f64::from(*x) <= SCALE) {
                line.base x1=(percent(x)) x2=(percent(x)) y1="0" y2="24" {}
            }
        }
    }
}

fn pieces(toll: &Toll, longest: f64) -> Vec<Markup> {
    let whole = toll.per_io(toll.instructions.median);
    let (mut reached, mut pieces) = (0.0, Vec::new());
    for stage in stages::along_the_bar() {
        let instructions = stages::of(toll, stage);
        if instructions == 0.0 {
            continue;
        }
        let from = place(reached, longest);
        reached += instructions;
        let width = place(reached, longest) - from;
        let share = quantity::share(instructions, whole);
        let told = format!(
            "{stage}: {} of {} instructions{share}",
            quantity::per_io(instructions),
            quantity::per_io(whole)
        );
        let fits = width > LABEL_CHARACTER * (stage.word().len() as u32 + 1);
        pieces.push(html! {
            g.(stages::class(stage)) {
                title { (told) }
                rect x=(percent(from)) width=(percent(width)) y="2" height="20" {}
                @if fits { text x=(percent(from + width / 2)) y="16" text-anchor="middle" { (stage) } }
            }
        });
    }
    pieces
}

/// Where along the bar an amount ends.
fn place(amount: f64, longest: f64) -> u32 {
    (amount / longest * SCALE).round() as u32
}

fn percent(place: u32) -> String {
    format!("{}.{:02}%", place / 100, place % 100)
}
