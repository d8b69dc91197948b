//! The table of all figures, by study and curve.

use super::words::{cells, titles, verdict, x};
use crate::page::table::{Row, Table};
use model::{Curve, Reproduction};

/// Above the table of all figures.
pub(super) const LEGEND: &str = "A hit counts only out of sample: the mechanism of the model makes the figure, and nothing was \
                                 chosen with it in view. Other kinds can only miss. Rule: an input, or arithmetic on inputs. \
                                 Saturated: the rate of a wire. Repeats: the value of another row. Structure chosen: with the \
                                 figure in view. Interpolated: between calibrated figures. Calibrated: a parameter was chosen \
                                 so that the model meets it. Reference: what was published, or measured here where the name \
                                 says so. ± is half of the 95 % interval over the seeds, where one changes the figure; ? follows \
                                 where the interval leaves open whether it misses. Column \"at\" is what the figure varies by.";

/// Each figure beside ours. If there are several studies, their names and verdicts are titles in the table.
pub(super) fn table(all: &[Reproduction]) -> Table {
    Table {
        names: "figure",
        wraps_names: true,
        titles: std::iter::once("at").chain(titles("reference")).map(str::to_owned).collect(),
        rows: all.iter().flat_map(|one| study(one, all.len() > 1)).collect(),
    }
}

/// The rows of a study: its name and verdict if `has_title`, then its figures.
fn study(one: &Reproduction, has_title: bool) -> impl Iterator<Item = Row> {
    let title = has_title.then(|| Row::title(format!("{}: {}", one.study, verdict(one))));
    title.into_iter().chain(one.curves.iter().flat_map(|curve| rows(curve, one.bound)))
}

/// A row for each figure of a curve, of which the first has the curve's name.
fn rows(curve: &Curve, bound: f64) -> impl Iterator<Item = Row> {
    curve.points.iter().enumerate().map(move |(index, point)| Row {
        name: if index == 0 { name(curve) } else { String::new() },
        ink: None,
        cells: std::iter::once(if curve.is_line() { x(point) } else { String::new() })
            .chain(cells(curve, point, bound))
            .collect(),
    })
}

/// The curve's name, with the unit of its figures and what they vary by.
fn name(curve: &Curve) -> String {
    let Curve { name, x_title, y_title, .. } = curve;
    let names_unit = name.contains(y_title.as_str()) || name.contains(" over ");
    match (curve.is_line(), names_unit) {
        (true, _) => format!("{name}: {y_title} by {x_title}"),
        (false, true) => name.clone(),
        (false, false) => format!("{name}: {y_title}"),
    }
}
