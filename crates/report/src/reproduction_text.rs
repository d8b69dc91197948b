//! A reproduction's figures in words, the same on terminals and pages.

use crate::bench_text::figure;
use crate::quantity;
use model::{Chart, Curve, Line, Point, Reproduction};

/// Titles of what is told of each figure.
pub(crate) const TITLES: [&str; 4] = ["published", "ours", "error", ""];

/// A figure, a text for each title.
pub(crate) fn cells(curve: &Curve, point: &Point, bound: f64) -> Vec<String> {
    let missed = if curve.misses(point, bound) { ", MISSED" } else { "" };
    vec![
        figure(point.published),
        figure(point.ours),
        quantity::signed_percent(point.error()),
        point.role.word().to_owned() + missed,
    ]
}

/// Where on its curve a figure is.
pub(crate) fn place(point: &Point) -> String {
    quantity::per_io(point.x)
}

/// How many predictions hold.
pub(crate) fn verdict(reproduction: &Reproduction) -> String {
    let (predicted, missed) = reproduction.predictions();
    let figures = format!(
        "{} of {} within {} of what was published{}",
        predicted - missed,
        quantity::count(predicted, "predicted figure"),
        percent(reproduction.bound),
        own_bounds(reproduction)
    );
    match reproduction.bounded() {
        (0, _) => figures,
        (points, outside) => {
            format!("{figures}, {} of {points} points within published bounds", points - outside)
        }
    }
}

/// A chart's value in a cell.
pub(crate) fn bounded_cell(line: &Line, point: (f64, f64)) -> String {
    let outside = if line.is_outside(point) == Some(true) { " OUTSIDE" } else { "" };
    let is_narrow = line.bounds.is_some_and(|bounds| bounds.is_narrow());
    let value = if is_narrow { format!("{:.5}", point.1) } else { figure(point.1) };
    value + outside
}

/// Where on a chart a row is.
pub(crate) fn chart_place(chart: &Chart, row: usize) -> String {
    if let Some(name) = chart.categories.get(row) {
        return name.clone();
    }
    chart
        .lines
        .first()
        .and_then(|line| line.points.get(row))
        .map_or_else(String::new, |point| quantity::per_io(point.0))
}

/// Between what the lines of a chart were published, as far as any were.
pub(crate) fn bounds(chart: &Chart) -> Option<String> {
    let one = |line: &Line| {
        let bounds = line.bounds?;
        let [low, high] = [bounds.low, bounds.high].map(|end| format!("{end}"));
        Some(format!("{} {low} to {high}, as far as {}", line.name, bounds.x_max))
    };
    let all: Vec<String> = chart.lines.iter().filter_map(one).collect();
    (!all.is_empty()).then(|| format!("Published lie between: {}.", all.join("; ")))
}

/// What a chart shows, with where its bounds come from.
pub(crate) fn about_chart(chart: &Chart) -> String {
    format!("{} against {}; {}", chart.y_title, chart.x_title, chart.source)
}

/// What a curve's figures are, with where they come from.
pub(crate) fn about(curve: &Curve) -> String {
    let within = curve.within.map(|within| format!("; asked for is {within}")).unwrap_or_default();
    if !curve.is_line() {
        return format!("{}; {}{within}", curve.y_title, curve.source);
    }
    format!("{} against {}; {}{within}", curve.y_title, curve.x_title, curve.source)
}

fn own_bounds(reproduction: &Reproduction) -> String {
    let bound = reproduction.curves.iter().find_map(|curve| curve.within);
    bound.map(|within| format!(", ratios within {within}")).unwrap_or_default()
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}
