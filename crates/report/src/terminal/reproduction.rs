//! Published figures beside ours on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::bench_text::figure;
use crate::fact::Fact;
use crate::reproduction_text::{
    TITLES, about, about_chart, bounded_cell, bounds, cells, chart_place, place, verdict,
};
use crate::style::{Ink, Style};
use model::{Chart, Curve, Reproduction};

/// A reproduction: each published figure beside ours, with its error, and what the model took as given.
pub fn reproduction(reproduction: &Reproduction, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!("{}: {}", reproduction.study, verdict(reproduction)));
    page.prose(&reproduction.question, 2);
    page.prose(&reproduction.method, 2);
    for curve in &reproduction.curves {
        page.heading(&curve.name);
        page.prose(&about(curve), 2);
        grid(curve, reproduction.bound).show(&mut page);
        if let Some(remark) = &curve.remark {
            page.prose(remark, 2);
        }
    }
    for chart in &reproduction.charts {
        page.heading(&chart.name);
        page.prose(&about_chart(chart), 2);
        chart_grid(chart).show(&mut page);
        if let Some(bounds) = bounds(chart) {
            page.prose(&bounds, 2);
        }
        if let Some(remark) = &chart.remark {
            page.prose(remark, 2);
        }
    }
    page.heading("What the model takes as given");
    let widest = reproduction.parameters.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in &reproduction.parameters {
        let words = format!("{}, {}", figure(one.value), one.evidence);
        page.fact(&Fact::known(&one.name, &words), widest + 2);
    }
    page.done()
}

fn grid(curve: &Curve, bound: f64) -> Grid {
    let row = |point: &model::Point| Row {
        name: place(point),
        ink: curve.misses(point, bound).then_some(Ink::Severity(host::diagnose::Severity::Warning)),
        cells: cells(curve, point, bound),
    };
    Grid {
        names: "at",
        titles: TITLES.map(str::to_owned).to_vec(),
        rows: curve.points.iter().map(row).collect(),
    }
}

fn chart_grid(chart: &Chart) -> Grid {
    let row = |index: usize| {
        let points = || chart.lines.iter().filter_map(|line| Some((line, *line.points.get(index)?)));
        let is_outside = points().any(|(line, point)| line.is_outside(point) == Some(true));
        Row {
            name: chart_place(chart, index),
            ink: is_outside.then_some(Ink::Severity(host::diagnose::Severity::Warning)),
            cells: points().map(|(line, point)| bounded_cell(line, point)).collect(),
        }
    };
    let rows = chart.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    Grid {
        names: "at",
        titles: chart.lines.iter().map(|line| line.name.clone()).collect(),
        rows: (0..rows).map(row).collect(),
    }
}
