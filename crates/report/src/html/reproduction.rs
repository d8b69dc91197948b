//! Published figures beside ours as a page: a plot and a table for each curve.

use super::document::document;
use crate::bench_text::figure;
use crate::plot::{Line, Plot};
use crate::reproduction_text::{TITLES, about, cells, place, verdict};
use maud::{Markup, html};
use model::{Curve, Point, Reproduction};

/// The page of reproductions.
pub fn reproduction_page(reproductions: &[Reproduction], made_by: &str) -> String {
    let body = html! {
        header {
            p.kicker { "iotoll · reproduce" }
            h1 { "Published figures, and what a model says." }
            nav aria-label="Contents" {
                @for one in reproductions { a href=(format!("#{}", one.family)) { (one.family) } }
            }
        }
        main { @for one in reproductions { (family(one)) } }
        footer { p { "Made by " (made_by) "." } }
    };
    document("published figures and ours", super::bench::STYLE, &body)
}

fn family(one: &Reproduction) -> Markup {
    html! {
        section id=(one.family) {
            h2 { (one.family) ": " (verdict(one)) }
            p { (one.question) }
            p.remark { (one.method) }
            @for curve in &one.curves { (self::curve(curve, one.bound)) }
            h3 { "What the model takes as given" }
            dl {
                @for given in &one.parameters {
                    div { dt { (given.name) } dd { (figure(given.value)) ", " (given.evidence) } }
                }
            }
        }
    }
}

fn curve(curve: &Curve, bound: f64) -> Markup {
    let line = |name: &str, value: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        points: curve.points.iter().map(|point| (point.x, value(point))).collect(),
    };
    let lines = [line("published", |point| point.published), line("ours", |point| point.ours)];
    let plot = Plot {
        name: &curve.name,
        x_title: &curve.x_title,
        y_title: &curve.y_title,
        lines: &lines,
        mark: None,
    };
    html! {
        h3 { (curve.name) }
        p.remark { (about(curve)) }
        div.scroll { (plot.draw()) }
        div.scroll { table {
            thead { tr { th scope="col" { (curve.x_title) } @for title in TITLES { th.number scope="col" { (title) } } } }
            tbody {
                @for point in &curve.points {
                    tr {
                        th scope="row" { (place(point)) }
                        @for text in cells(point, bound) { td.number { (text) } }
                    }
                }
            }
        } }
        @if let Some(remark) = &curve.remark { p.remark { (remark) } }
    }
}
