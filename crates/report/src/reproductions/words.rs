//! Figures of a reproduction in words, the same wherever they stand.

use crate::page::quantity::{self, figure, grouped};
use model::{Chart, Curve, Line, Point, Reproduction};

/// Titles of the columns of [`cells`].
pub(super) const TITLES: [&str; 4] = ["published", "ours", "error", "kind"];

/// A figure: a cell for each of [`TITLES`].
pub(super) fn cells(curve: &Curve, point: &Point, bound: f64) -> Vec<String> {
    let missed = if curve.misses(point, bound) { ", MISSED" } else { "" };
    vec![
        figure(point.published),
        figure(point.ours),
        quantity::signed_percent(point.error()),
        point.role.word().to_owned() + missed,
    ]
}

/// The figure's x on its curve.
pub(super) fn x(point: &Point) -> String {
    quantity::per_io(point.x)
}

/// `106 of 182 predicted figures of 8 studies are within the bound of their study`
pub(super) fn title(studies: usize, (predicted, missed): (usize, usize)) -> String {
    format!(
        "{} of {} of {studies} studies are within the bound of their study",
        grouped((predicted - missed) as u64),
        quantity::count(predicted, "predicted figure")
    )
}

/// How many predictions of a study are within its bounds.
pub(super) fn verdict(reproduction: &Reproduction) -> String {
    let (predicted, missed) = reproduction.predictions();
    let figures = format!(
        "{} of {} within {} of what was published{}",
        predicted - missed,
        quantity::count(predicted, "predicted figure"),
        percent(reproduction.bound),
        bound_of_ratios(reproduction)
    );
    match reproduction.bounded() {
        (0, _) => figures,
        (points, outside) => {
            format!("{figures}, {} of {points} points within published bounds", points - outside)
        }
    }
}

/// A value of a chart, marked if it is outside the published bounds.
pub(super) fn chart_cell(line: &Line, point: (f64, f64)) -> String {
    let outside = if line.is_outside(point) == Some(true) { " OUTSIDE" } else { "" };
    let is_narrow = line.bounds.is_some_and(|bounds| bounds.is_narrow());
    let value = if is_narrow { format!("{:.5}", point.1) } else { figure(point.1) };
    value + outside
}

/// The category or the x of a chart's row.
pub(super) fn chart_row_name(chart: &Chart, row: usize) -> String {
    if let Some(name) = chart.categories.get(row) {
        return name.clone();
    }
    chart
        .lines
        .first()
        .and_then(|line| line.points.get(row))
        .map_or_else(String::new, |point| quantity::per_io(point.0))
}

/// The bounds that were published for a chart's lines; `None` if there are none.
pub(super) fn bounds(chart: &Chart) -> Option<String> {
    let one = |line: &Line| {
        let bounds = line.bounds?;
        Some(format!("{} {} to {}, up to x = {}", line.name, bounds.low, bounds.high, bounds.x_max))
    };
    let all: Vec<String> = chart.lines.iter().filter_map(one).collect();
    (!all.is_empty()).then(|| format!("Published bounds: {}.", all.join("; ")))
}

/// What a chart shows, and what was published of it.
pub(super) fn about_chart(chart: &Chart) -> String {
    format!("{} against {}; published: {}", chart.y_title, chart.x_title, chart.source)
}

/// A curve's quantity and source, and the tolerated error of its figures.
pub(super) fn about(curve: &Curve) -> String {
    let within = curve.within.map(|within| format!("; within {within} asked for")).unwrap_or_default();
    match curve.is_line() {
        true => format!("{} against {}; {}{within}", curve.y_title, curve.x_title, curve.source),
        false => format!("{}; {}{within}", curve.y_title, curve.source),
    }
}

/// The bound of curves whose figures are ratios, where the study's bound in percent does not apply.
fn bound_of_ratios(reproduction: &Reproduction) -> String {
    let bound = reproduction.curves.iter().find_map(|curve| curve.within);
    bound.map(|within| format!(", ratios within {within}")).unwrap_or_default()
}

/// A share as `10 %`, with at most two decimals.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

/// A figure in one line: its curve, its x, the published value, ours and the error.
pub(super) fn figure_label(curve: &Curve, point: &Point) -> String {
    let at = if curve.is_line() { format!(", at {}", x(point)) } else { String::new() };
    format!(
        "{}{at}: published {}, ours {}, {}",
        curve.name,
        figure(point.published),
        figure(point.ours),
        quantity::signed_percent(point.error())
    )
}
