//! Drawings of reproductions: curves, charts, and the errors of all figures.

use super::words::figure_label;
use crate::page::Block;
use crate::page::drawing::{Bars, Drawing, ErrorDot, ErrorRow, Errors, Kind, Line, Plot};
use model::{Chart, Curve, FigureKind, Point, Reproduction};

/// The drawings of a study: one for each curve, `None` for curves of a single figure, then one for each chart.
pub fn drawings(one: &Reproduction) -> Vec<Option<Drawing>> {
    let curves = one.curves.iter().map(|curve| curve.is_line().then(|| self::curve(curve)));
    curves.chain(one.charts.iter().map(|chart| Some(self::chart(chart)))).collect()
}

/// The errors of all figures, a row of dots for each study.
pub(super) fn errors(all: &[Reproduction]) -> Block {
    let dot = |curve: &Curve, point: &Point| ErrorDot {
        error: point.error(),
        counts: point.kind == FigureKind::OutOfSample,
        label: figure_label(curve, point),
    };
    let row = |one: &Reproduction| ErrorRow {
        name: one.study.clone(),
        bound: one.bound,
        dots: one
            .curves
            .iter()
            .flat_map(|curve| curve.points.iter().map(move |point| dot(curve, point)))
            .collect(),
    };
    let name = "Errors of all figures against what was published or measured, by study".to_owned();
    Block::Drawing(Drawing(Kind::Errors(Errors { name, rows: all.iter().map(row).collect() })))
}

/// The reference and ours.
pub(super) fn curve(curve: &Curve) -> Drawing {
    let line = |name: &str, value: fn(&Point) -> f64| Line {
        name: name.to_owned(),
        points: curve.points.iter().map(|point| (point.x, value(point))).collect(),
    };
    Drawing(Kind::Plot(Plot {
        name: curve.name.clone(),
        x_title: curve.x_title.clone(),
        y_title: curve.y_title.clone(),
        lines: vec![line(curve.reference.word(), |point| point.reference), line("ours", |point| point.ours)],
        mark: None,
    }))
}

/// Our lines, or bars where what is varied has names.
pub(super) fn chart(chart: &Chart) -> Drawing {
    let Chart { name, x_title, y_title, categories, .. } = chart.clone();
    let line = |line: &model::Line| Line { name: line.name.clone(), points: line.points.clone() };
    let lines = chart.lines.iter().map(line).collect();
    Drawing(match categories.is_empty() {
        true => Kind::Plot(Plot { name, x_title, y_title, lines, mark: None }),
        false => Kind::Bars(Bars { name, y_title, categories, lines }),
    })
}
