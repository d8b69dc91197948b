//! Errors of figures: a row of dots for each study, over a band as wide as the study's bound.

use super::frame::{WIDTH, frame_of_height, round};
use crate::page::drawing::{ErrorDot, ErrorRow, Errors};
use crate::page::quantity::signed_percent;
use maud::{Markup, html};

/// Where the axis of errors begins and ends.
const FROM: f64 = 140.0;
const TO: f64 = WIDTH - 68.0;
/// The largest error on the axis, as a share; dots beyond lie at the edge.
const ERROR_MAX: f64 = 0.5;
const ROW_HEIGHT: f64 = 34.0;
/// Space for the legend above the rows.
const TOP: f64 = 30.0;
/// Space for the axis below the rows.
const BOTTOM: f64 = 44.0;
/// Errors that the axis names.
const TICKS: [f64; 5] = [-0.5, -0.25, 0.0, 0.25, 0.5];
/// Distances from the middle of a row that successive dots have, so that equal errors don't cover each other.
const OFFSETS: [f64; 5] = [0.0, -5.0, 5.0, -10.0, 10.0];

/// Draws errors, or nothing if there are no studies. With a style, it is a complete SVG file; without one, a part of a page.
pub(super) fn draw(errors: &Errors, style: Option<&str>) -> Markup {
    if errors.rows.is_empty() {
        return html! {};
    }
    let bottom = TOP + ROW_HEIGHT * errors.rows.len() as f64;
    let content = html! {
        (legend())
        @for tick in TICKS {
            path.grid d=(format!("M{} {TOP}V{bottom}", round(x(tick)))) {}
            text.tick x=(round(x(tick))) y=(bottom + 18.0) text-anchor=(if tick < ERROR_MAX { "middle" } else { "end" }) { (tick_name(tick)) }
        }
        text.axis x=(round((FROM + TO) / 2.0)) y=(bottom + 37.0) text-anchor="middle" { "error: ours over the reference, less one" }
        @for (row, top) in errors.rows.iter().zip((0..).map(|index| TOP + ROW_HEIGHT * f64::from(index))) { (study(row, top)) }
    };
    frame_of_height(&errors.name, bottom + BOTTOM, style, &content)
}

/// The legend: marks of figures out of sample and of others, and the band of the bound.
fn legend() -> Markup {
    html! {
        circle.point.filled.line0 cx=(FROM + 6.0) cy="14" r="3.5" {}
        text.tick x=(FROM + 15.0) y="18" { "out of sample" }
        circle.point.line1 cx=(FROM + 116.0) cy="14" r="3.5" {}
        text.tick x=(FROM + 125.0) y="18" { "other kinds" }
        rect.bound x=(FROM + 204.0) y="8" width="18" height="12" {}
        text.tick x=(FROM + 228.0) y="18" { "within the study's bound" }
    }
}

/// A study's name, the band of its bound, and its dots.
fn study(row: &ErrorRow, top: f64) -> Markup {
    let (low, high) = (x(-row.bound), x(row.bound));
    let middle = top + ROW_HEIGHT / 2.0;
    html! {
        rect.bound x=(round(low)) y=(round(top + 3.0)) width=(round(high - low)) height=(ROW_HEIGHT - 6.0) {}
        text.axis x=(FROM - 10.0) y=(round(middle + 4.0)) text-anchor="end" { (row.name) }
        @for (dot, offset) in row.dots.iter().zip(OFFSETS.iter().cycle()) { (self::dot(dot, middle + offset)) }
    }
}

/// The dot of a figure at this height; its title has the figure's values.
fn dot(dot: &ErrorDot, y: f64) -> Markup {
    let class = if dot.counts { "point filled line0" } else { "point line1" };
    html! {
        circle class=(class) cx=(round(x(dot.error))) cy=(round(y)) r="3.5" { title { (dot.label) } }
    }
}

/// The x of an error on the axis.
fn x(error: f64) -> f64 {
    let share = (error.clamp(-ERROR_MAX, ERROR_MAX) + ERROR_MAX) / (2.0 * ERROR_MAX);
    FROM + share * (TO - FROM)
}

/// `+25 %`; at the ends of the axis `+50 % or more`.
fn tick_name(error: f64) -> String {
    let percent = match error {
        0.0 => "0".to_owned(),
        _ => signed_percent(error).replace(".0", ""),
    };
    match error.abs() {
        ERROR_MAX => format!("{percent} or more"),
        _ => percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_dot_and_errors_beyond_the_axis_lie_at_its_ends() {
        let dot = |error| ErrorDot { error, counts: error != 0.0, label: format!("off by {error}") };
        let rows =
            vec![ErrorRow { name: "one".to_owned(), bound: 0.1, dots: [0.0, 3.0, -0.2].map(dot).to_vec() }];
        let drawn = draw(&Errors { name: "errors".to_owned(), rows }, None).into_string();
        assert_eq!(drawn.matches("<title>off by").count(), 3);
        assert!(drawn.contains(&format!("cx=\"{TO}\"")) && drawn.contains("+50 % or more"), "{drawn}");
        assert_eq!(draw(&Errors { name: String::new(), rows: Vec::new() }, None).into_string(), "");
    }
}
