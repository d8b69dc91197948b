//! A reproduction's figures in words, the same on terminals and pages.

use crate::bench_text::figure;
use crate::quantity;
use model::{Curve, Point, Reproduction};

/// Titles of what is told of each figure.
pub(crate) const TITLES: [&str; 4] = ["published", "ours", "error", ""];

/// A figure, a text for each title.
pub(crate) fn cells(curve: &Curve, point: &Point, bound: f64) -> Vec<String> {
    let missed = if curve.misses(point, bound) { ", MISSED" } else { "" };
    vec![
        point.published.map(figure).unwrap_or_default(),
        figure(point.ours),
        point.error().map(quantity::signed_percent).unwrap_or_default(),
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
    format!(
        "{} of {} within {} of what was published{}",
        predicted - missed,
        quantity::count(predicted, "predicted figure"),
        percent(reproduction.bound),
        own_bounds(reproduction)
    )
}

fn own_bounds(reproduction: &Reproduction) -> String {
    let bound = reproduction.curves.iter().find_map(|curve| curve.within);
    bound.map(|within| format!(", ratios within {}", figure(within))).unwrap_or_default()
}

/// What a curve's figures are, with where they come from.
pub(crate) fn about(curve: &Curve) -> String {
    let within =
        curve.within.map(|within| format!("; predicted within {}", figure(within))).unwrap_or_default();
    format!("{} against {}; {}{within}", curve.y_title, curve.x_title, curve.source)
}

fn percent(share: f64) -> String {
    format!("{} %", figure(share * 100.0).trim_end_matches(".0"))
}
