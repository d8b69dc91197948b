//! Figures of a reproduction in words, the same wherever they stand.

use crate::page::quantity::{self, figure, grouped};
use model::{Chart, Curve, FigureKind, Line, Point, Reproduction, Tally};

/// Titles of the columns of [`cells`]; the first is that of what ours are held against.
pub(super) fn titles(reference: &str) -> [&str; 4] {
    [reference, "ours", "error", "kind"]
}

/// A figure: a cell for each of [`titles`].
pub(super) fn cells(curve: &Curve, point: &Point, bound: f64) -> Vec<String> {
    vec![
        figure(point.reference),
        quantity::with_interval(&point.estimate(), figure),
        quantity::signed_percent(point.error()),
        point.kind.word().to_owned() + missed(curve, point, bound),
    ]
}

/// Whether a figure misses, and whether that may be by chance.
fn missed(curve: &Curve, point: &Point, bound: f64) -> &'static str {
    match (curve.misses(point, bound), curve.is_open(point, bound)) {
        (true, false) => ", MISSED",
        (true, true) => ", MISSED ?",
        (false, true) => ", within ?",
        (false, false) => "",
    }
}

/// The figure's x on its curve.
pub(super) fn x(point: &Point) -> String {
    quantity::per_io(point.x)
}

/// `6 of 21 figures out of sample of 8 studies are within the bound of their study; 90 of 190 others miss`
pub(super) fn title(all: &[Reproduction]) -> String {
    let counted: Tally = all.iter().map(Reproduction::out_of_sample).sum();
    let others: Tally = all.iter().map(Reproduction::others).sum();
    format!(
        "{} of {} out of sample of {} studies are within the bound of their study; {} of {} others miss",
        grouped(counted.within() as u64),
        quantity::count(counted.rows, "figure"),
        all.len(),
        grouped(others.missed as u64),
        grouped(others.rows as u64)
    )
}

/// How many figures of a study are hits that count, and how many others miss.
pub(super) fn verdict(reproduction: &Reproduction) -> String {
    let (counted, others) = (reproduction.out_of_sample(), reproduction.others());
    let bound = percent(reproduction.bound);
    let hits = match counted.rows {
        0 => format!("no figure out of sample, within {bound}{}", bound_of_ratios(reproduction)),
        rows => format!(
            "{} of {} out of sample within {bound}{}",
            counted.within(),
            quantity::count(rows, "figure"),
            bound_of_ratios(reproduction)
        ),
    };
    let others = (others.rows > 0).then(|| format!("{} of {} others miss", others.missed, others.rows));
    let bounded = reproduction.bounded();
    let outside =
        (bounded.rows > 0).then(|| format!("{} of {} points out of bounds", bounded.missed, bounded.rows));
    [Some(hits), others, outside].into_iter().flatten().collect::<Vec<_>>().join(", ")
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

/// What saturated figures of a curve are limited by, and which rows others repeat; `None` if there are neither.
pub(super) fn about_kinds(curve: &Curve) -> Option<String> {
    let saturated = curve.points.iter().filter(|point| point.kind == FigureKind::Saturated);
    let mut limits: Vec<&str> =
        saturated.filter_map(|point| Some(point.limit.as_ref()?.name.as_str())).collect();
    limits.dedup();
    let limits = (!limits.is_empty()).then(|| format!("Saturated: {}.", limits.join(", ")));
    let repeats = curve.points.iter().filter_map(|point| {
        let row = point.repeats.as_ref()?;
        let of = if row.curve == curve.name { "this curve" } else { row.curve.as_str() };
        Some(format!("{} that of {of} at {}", x(point), quantity::per_io(row.x)))
    });
    let repeats: Vec<String> = repeats.collect();
    let repeats = (!repeats.is_empty()).then(|| format!("Repeats: at {}.", repeats.join("; at ")));
    let notes: Vec<String> = [limits, repeats].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join(" "))
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

/// A figure in one line: its curve, its x, the reference, ours, the error and the kind.
pub(super) fn figure_label(curve: &Curve, point: &Point) -> String {
    let at = if curve.is_line() { format!(", at {}", x(point)) } else { String::new() };
    format!(
        "{}{at}: {} {}, ours {}, {}, {}",
        curve.name,
        curve.reference.word(),
        figure(point.reference),
        quantity::with_interval(&point.estimate(), figure),
        quantity::signed_percent(point.error()),
        point.kind.word()
    )
}
