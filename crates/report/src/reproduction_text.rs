//! A reproduction's figures in words, the same on terminals and pages.

use crate::bench_text::figure;
use crate::quantity;
use model::{Curve, Point, Reproduction};

/// Titles of what is told of each figure.
pub(crate) const TITLES: [&str; 4] = ["published", "ours", "error", ""];

/// A figure, a text for each title.
pub(crate) fn cells(point: &Point, bound: f64) -> Vec<String> {
    let missed = if point.misses(bound) { ", MISSED" } else { "" };
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
    format!(
        "{} of {} within {} of what was published",
        predicted - missed,
        quantity::count(predicted, "predicted figure"),
        percent(reproduction.bound)
    )
}

/// What a curve's figures are, with where they come from.
pub(crate) fn about(curve: &Curve) -> String {
    format!("{} against {}; {}", curve.y_title, curve.x_title, curve.source)
}

fn percent(share: f64) -> String {
    format!("{} %", figure(share * 100.0).trim_end_matches(".0"))
}
