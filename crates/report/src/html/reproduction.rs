//! Published figures beside ours as a page: a plot and a table for each curve.

use super::document::document;
use crate::bars::Bars;
use crate::bench_text::figure;
use crate::plot::{Line, Plot};
use crate::reproduction_text::{
    TITLES, about, about_chart, bounded_cell, bounds, cells, chart_place, place, verdict,
};
use maud::{Markup, html};
use model::{Chart, Curve, Point, Reproduction};

/// Of the style of all pages, what a drawing by itself needs.
const DRAWING: &str = "\
svg { --paper: #fdfdfb; --soft: #5b636d; --line: #d9dcde; background: var(--paper); font-family: system-ui, 'DejaVu Sans', sans-serif }
@media (prefers-color-scheme: dark) { svg { --paper: #15181c; --soft: #9aa3ad; --line: #343a41 } }
";

/// The page of reproductions.
pub fn reproduction_page(reproductions: &[Reproduction], made_by: &str) -> String {
    let body = html! {
        header {
            p.kicker { "iotoll · reproduce" }
            h1 { "Published figures, and what a model says." }
            nav aria-label="Contents" {
                @for one in reproductions { a href=(format!("#{}", one.study)) { (one.study) } }
            }
        }
        main { @for one in reproductions { (study(one)) } }
        footer { p { "Made by " (made_by) "." } }
    };
    document("published figures and ours", super::bench::STYLE, &body)
}

/// The drawing of a curve as a file of its own: SVG, in light or dark as its reader's page is.
pub fn curve_drawing(curve: &Curve) -> String {
    lines(curve, |plot| plot.file(&format!("{DRAWING}{}", super::bench::STYLE))).into_string() + "\n"
}

/// The drawing of a chart as a file of its own, likewise.
pub fn chart_drawing(chart: &Chart) -> String {
    chart_lines(chart, Some(&format!("{DRAWING}{}", super::bench::STYLE))).into_string() + "\n"
}

fn study(one: &Reproduction) -> Markup {
    html! {
        section id=(one.study) {
            h2 { (one.study) ": " (verdict(one)) }
            p { (one.question) }
            p.remark { (one.method) }
            @for curve in &one.curves { (self::curve(curve, one.bound)) }
            @for chart in &one.charts { (self::chart(chart)) }
            h3 { "What the model takes as given" }
            (parameters(one))
        }
    }
}

fn parameters(one: &Reproduction) -> Markup {
    html! {
        div.scroll { table {
            thead { tr { th scope="col" { "parameter" } th.number scope="col" { "value" } th scope="col" { "evidence" } } }
            tbody {
                @for given in &one.parameters {
                    tr {
                        th scope="row" { (given.name) }
                        td.number { (figure(given.value)) }
                        td { (given.evidence) }
                    }
                }
            }
        } }
    }
}

/// Draws the published line and ours.
fn lines(curve: &Curve, draw: impl FnOnce(&Plot<'_>) -> Markup) -> Markup {
    let line = |name: &str, value: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        points: curve.points.iter().map(|point| (point.x, value(point))).collect(),
    };
    let lines = [line("published", |point| point.published), line("ours", |point| point.ours)];
    let (name, x_title, y_title) = (&curve.name, &curve.x_title, &curve.y_title);
    draw(&Plot { name, x_title, y_title, lines: &lines, mark: None })
}

fn curve(curve: &Curve, bound: f64) -> Markup {
    html! {
        h3 { (curve.name) }
        p.remark { (about(curve)) }
        @if curve.is_line() { div.scroll { (lines(curve, |plot| plot.draw())) } }
        div.scroll { table {
            thead { tr { th scope="col" { (curve.x_title) } @for title in TITLES { th.number scope="col" { (title) } } } }
            tbody {
                @for point in &curve.points {
                    tr {
                        th scope="row" { (place(point)) }
                        @for text in cells(curve, point, bound) { td.number { (text) } }
                    }
                }
            }
        } }
        @if let Some(remark) = &curve.remark { p.remark { (remark) } }
    }
}

/// Draws our lines, or bars; with a style as a file of its own.
fn chart_lines(chart: &Chart, style: Option<&str>) -> Markup {
    let line = |line: &model::Line| Line { name: line.name.clone(), points: line.points.clone() };
    let lines: Vec<Line> = chart.lines.iter().map(line).collect();
    let (name, x_title, y_title) = (&chart.name, &chart.x_title, &chart.y_title);
    if !chart.categories.is_empty() {
        return Bars { name, y_title, categories: &chart.categories, lines: &lines }.drawing(style);
    }
    let plot = Plot { name, x_title, y_title, lines: &lines, mark: None };
    style.map_or_else(|| plot.draw(), |style| plot.file(style))
}

fn chart(chart: &Chart) -> Markup {
    let rows = chart.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    html! {
        h3 { (chart.name) }
        p.remark { (about_chart(chart)) }
        div.scroll { (chart_lines(chart, None)) }
        div.scroll { table {
            thead { tr { th scope="col" { (chart.x_title) } @for line in &chart.lines { th.number scope="col" { (line.name) } } } }
            tbody {
                @for row in 0..rows {
                    tr {
                        th scope="row" { (chart_place(chart, row)) }
                        @for line in &chart.lines { td.number { @if let Some(&point) = line.points.get(row) { (bounded_cell(line, point)) } } }
                    }
                }
            }
        } }
        @if let Some(bounds) = bounds(chart) { p.remark { (bounds) } }
        @if let Some(remark) = &chart.remark { p.remark { (remark) } }
    }
}
