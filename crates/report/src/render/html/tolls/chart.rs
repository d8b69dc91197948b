//! The chart of a workload on one machine and kernel: a bar for each DMA path.

use super::{numbers, overview, stages};
use crate::page::cost::Cost;
use crate::page::quantity;
use crate::render::svg;
use crate::sheets::driver::Chart;
use crate::sheets::platform::SheetLine;
use crate::sheets::words as toll_words;
use escape::terminal::plain;
use maud::{Markup, html};
use toll::{Event, PriceList, Toll};

/// Events that have a column if any happened. The table of exact numbers has all events.
pub(super) const EVENTS: [Event; 4] =
    [Event::Hypercalls, Event::Invalidations, Event::TableEntries, Event::StringIterations];

/// The length of the longest bar, in hundredths of a percent. Edges are whole numbers, so that widths add up.
const SCALE: f64 = 10_000.0;

/// The width of a label's character in the same unit, where a bar is as narrow as beside all columns (about 210 pixels).
const LABEL_CHARACTER: u32 = 290;

/// The chart of a workload: a bar for each DMA path, with a folded table of exact numbers below.
pub(super) fn chart(chart: &Chart, prices: Option<&PriceList>) -> Markup {
    let longest = chart.lines.iter().map(SheetLine::instructions).fold(1.0, f64::max);
    let events: Vec<Event> = EVENTS.into_iter().filter(|event| any_happened(chart, *event)).collect();
    html! {
        div.chart #(format!("chart-{}", chart.number)) {
            table.bars {
                caption { b { (chart.workload) } @if let Some(line) = chart.lines.first() { " " (io_words(line.toll)) } }
                thead {
                    tr {
                        th scope="col" { "DMA path" }
                        th scope="col" { "instructions by stage" }
                        th.number scope="col" { "instructions" }
                        th.number scope="col" { "DMA stages add" }
                        th.number scope="col" { "elsewhere" }
                        @for event in &events { th.number.event scope="col" { (event_title(*event)) } }
                        @if prices.is_some() { th.number scope="col" { "priced" } }
                    }
                }
                tbody { @for line in &chart.lines { (row(line, longest, &events, prices)) } }
            }
            details { summary { "Exact numbers" } (numbers::table(chart)) }
        }
    }
}

/// The largest share that any DMA path adds, as the summary of a folded chart.
pub(super) fn largest_share(chart: &Chart) -> Markup {
    let added = chart.lines.iter().filter_map(SheetLine::added_share);
    html! { @if let Some(most) = added.max_by(f64::total_cmp) { (quantity::signed_percent(most)) " at most" } }
}

/// A workload's I/O in words, with its size.
fn io_words(toll: &Toll) -> String {
    let bytes = if toll.bytes_per_io == 0 {
        String::new()
    } else {
        format!(", {}", quantity::bytes(toll.bytes_per_io))
    };
    plain(&format!("{}{bytes} per I/O", toll.what))
}

/// Whether an event happened on any DMA path.
fn any_happened(chart: &Chart, event: Event) -> bool {
    let total = |line: &SheetLine| line.toll.events.get(&event).map_or(0, |tally| tally.all.total);
    chart.lines.iter().any(|line| total(line) > 0)
}

/// An event's name with spaces in place of hyphens.
fn event_title(event: Event) -> String {
    event.word().replace('-', " ")
}

/// The row of a DMA path: its bar, its instructions, its events, and what they take.
fn row(line: &SheetLine, longest: f64, events: &[Event], prices: Option<&PriceList>) -> Markup {
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
            td.number data-label="DMA stages add" { (added_instructions(line)) }
            td.number data-label="elsewhere" { (elsewhere(line)) }
            @for event in events {
                td.number.event data-label=(event_title(*event)) { (count_or_dash(&toll_words::per_io(line.toll, *event))) }
            }
            @if prices.is_some() {
                td.number data-label="priced" { (line.added_time(prices).unwrap_or_default()) }
            }
        }
    }
}

/// The count of an event, or a dash if it was not counted, which differs from zero.
fn count_or_dash(count: &str) -> &str {
    if count.is_empty() { "–" } else { count }
}

/// The instructions that the DMA path adds in the stages of DMA mapping, also in percent; with a question mark if the sign is
/// uncertain.
fn added_instructions(line: &SheetLine) -> Markup {
    html! {
        @match (&line.over, line.added_share()) {
            (Some(over), Some(added)) => {
                (quantity::estimate(&over.dma)) " "
                @if line.differs_for_certain() { b { (quantity::signed_percent(added)) } }
                @else { span.unsure title=(overview::UNSURE) { (quantity::signed_percent(added)) "?" } }
            }
            (Some(over), None) => (quantity::estimate(&over.dma)),
            (None, _) if line.base.is_some() => span.absent { "compared with this" },
            _ => span.absent { "–" },
        }
    }
}

/// What is different in all other stages.
fn elsewhere(line: &SheetLine) -> Markup {
    html! { @if let Some(over) = &line.over { (quantity::estimate(&over.elsewhere)) } }
}

/// The bar of an I/O's instructions, with a dashed line at the end of the untranslated DMA path's bar.
fn bar(line: &SheetLine, longest: f64) -> Markup {
    let name =
        format!("{}: {} instructions", plain(&line.sheet.preset), quantity::per_io(line.instructions()));
    let base = line.base.map(|(_, toll)| position(toll.per_io(toll.instructions.median), longest));
    html! {
        svg.bar width="100%" height="24" role="img" aria-label=(name) {
            @for piece in pieces(line.toll, longest) { (piece) }
            @if let Some(x) = base.filter(|x| f64::from(*x) <= SCALE) {
                line.base x1=(css_percent(x)) x2=(css_percent(x)) y1="0" y2="24" {}
            }
        }
    }
}

/// The parts of a bar, one for each stage.
fn pieces(toll: &Toll, longest: f64) -> Vec<Markup> {
    let whole = toll.per_io(toll.instructions.median);
    let (mut end, mut pieces) = (0.0, Vec::new());
    for stage in stages::in_bar_order() {
        let instructions = stages::instructions_per_io(toll, stage);
        if instructions == 0.0 {
            continue;
        }
        let from = position(end, longest);
        end += instructions;
        let width = position(end, longest) - from;
        let share = quantity::share(instructions, whole);
        let title = format!(
            "{stage}: {} of {} instructions{share}",
            quantity::per_io(instructions),
            quantity::per_io(whole)
        );
        let fits = width > LABEL_CHARACTER * (stage.word().len() as u32 + 1);
        pieces.push(html! {
            g.(stages::class(stage)) {
                title { (title) }
                rect x=(css_percent(from)) width=(css_percent(width)) y="2" height="20" {}
                @if fits { text x=(css_percent(from + width / 2)) y="16" text-anchor="middle" { (stage) } }
            }
        });
    }
    pieces
}

/// An amount as a position on the bar, in hundredths of a percent of the longest bar.
fn position(amount: f64, longest: f64) -> u32 {
    (amount / longest * SCALE).round() as u32
}

/// Hundredths of a percent as a length of CSS.
fn css_percent(hundredths: u32) -> String {
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}
