//! The story of one study: its question and method, each curve and chart, and the model's parameters with their evidence.

use super::drawings;
use super::words::{about, about_chart, about_kinds, bounds, cells, chart_cell, chart_row_name, titles, x};
use crate::evidence_share::evidence_share;
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::quantity::figure;
use crate::page::table::{Row, Table};
use crate::page::{Block, Details, Page};
use model::{Chart, Curve, Point, Reproduction};

/// Whether the stories of the studies are folded at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stories {
    /// HTML unfolds them on a click; a terminal leaves them out of a folded report.
    Folded,
    /// All of them are shown.
    Open,
}

/// A study from its question to the evidence of its parameters.
pub(super) fn story(one: &Reproduction, stories: Stories) -> Block {
    let mut page = Page::default();
    page.prose(&one.method, 2);
    for curve in &one.curves {
        add_curve(&mut page, curve, one.bound);
    }
    for chart in &one.charts {
        add_chart(&mut page, chart);
    }
    page.heading("Parameters of the model");
    page.remark(evidence_share(one.evidence) + ".");
    let widest = one.parameters.iter().map(|given| given.name.len()).max().unwrap_or(0);
    let words = |given: &model::Parameter| format!("{}, {}", figure(given.value), given.evidence);
    page.facts(one.parameters.iter().map(|given| Fact::known(&given.name, &words(given))), widest + 2);
    Block::Details(Details {
        summary: format!("{}: {}", one.study, one.question),
        anchor: one.study.clone(),
        is_open: stories == Stories::Open,
        blocks: page.blocks,
    })
}

/// Adds a curve: plot, table of figures, and remark.
fn add_curve(page: &mut Page, curve: &Curve, bound: f64) {
    page.heading(&curve.name);
    page.remark(about(curve));
    if curve.is_line() {
        page.push(Block::Drawing(drawings::curve(curve)));
    }
    let row = |point: &Point| Row {
        name: x(point),
        ink: curve.misses(point, bound).then_some(Ink::WARNING),
        cells: cells(curve, point, bound),
    };
    page.table(Table {
        names: "at",
        wraps_names: false,
        titles: titles(curve.reference.word()).map(str::to_owned).to_vec(),
        rows: curve.points.iter().map(row).collect(),
    });
    if let Some(kinds) = about_kinds(curve) {
        page.remark(kinds);
    }
    if let Some(remark) = &curve.remark {
        page.prose(remark, 2);
    }
}

/// Adds a chart: drawing, table of our values, published bounds, and remark.
fn add_chart(page: &mut Page, chart: &Chart) {
    page.heading(&chart.name);
    page.remark(about_chart(chart));
    page.push(Block::Drawing(drawings::chart(chart)));
    let row = |index: usize| {
        let points = || chart.lines.iter().map(|line| Some((line, *line.points.get(index)?)));
        let is_outside = points().flatten().any(|(line, point)| line.is_outside(point) == Some(true));
        Row {
            name: chart_row_name(chart, index),
            ink: is_outside.then_some(Ink::WARNING),
            cells: points()
                .map(|point| point.map(|(line, point)| chart_cell(line, point)).unwrap_or_default())
                .collect(),
        }
    };
    let rows = chart.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    page.table(Table {
        names: "at",
        wraps_names: false,
        titles: chart.lines.iter().map(|line| line.name.clone()).collect(),
        rows: (0..rows).map(row).collect(),
    });
    if let Some(bounds) = bounds(chart) {
        page.remark(bounds);
    }
    if let Some(remark) = &chart.remark {
        page.prose(remark, 2);
    }
}
