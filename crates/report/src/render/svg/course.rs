//! Values in the course of time: both axes are linear, from zero.

use super::frame::{
    BOTTOM, HEADROOM, LABEL, LEFT, RIGHT, TOP, WIDTH, amounts, colour, dash, frame_of_height, round, ticks,
};
use crate::page::drawing::{Course, Line};
use maud::{Markup, html};

/// Several of these stand below each other.
const HEIGHT: f64 = 230.0;

/// Draws the lines, or nothing if all values are zero. With a style, it is a complete SVG file; without one, a part of a page.
pub(super) fn draw(course: &Course, style: Option<&str>) -> Markup {
    let points = || course.lines.iter().flat_map(|line| &line.points);
    let latest = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    if latest <= 0.0 || highest <= 0.0 {
        return html! {};
    }
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let x = |seconds: f64| LEFT + seconds / latest * (right - LEFT);
    let y = |value: f64| bottom - value / (highest * HEADROOM) * (bottom - TOP);
    let content = html! {
        (amounts(&course.y_title, highest * HEADROOM, HEIGHT, y))
        @for value in ticks(latest) {
            text.tick x=(round(x(value))) y=(bottom + 18.0) text-anchor="middle" { (value) }
        }
        text.axis x=((LEFT + right) / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { "seconds" }
        @for (index, one) in course.lines.iter().enumerate() {
            path.line.(colour(index)).(dash(index)) d=(path(one, x, y)) { title { (one.name) } }
        }
        (key(&course.lines))
    };
    frame_of_height(&course.name, HEIGHT, style, &content)
}

/// The names of lines beside the drawing, each behind a piece of its line.
fn key(lines: &[Line]) -> Markup {
    let left = WIDTH - RIGHT + 8.0;
    html! {
        @for (index, line) in lines.iter().enumerate() {
            @let y = TOP + LABEL * (index as f64 + 1.0);
            path.line.(colour(index)).(dash(index)) d=(format!("M{left} {}h26", y - 4.0)) {}
            text.label.(colour(index)) x=(left + 32.0) y=(y) { (line.name) }
        }
    }
}

/// The way of a line.
fn path(line: &Line, x: impl Fn(f64) -> f64, y: impl Fn(f64) -> f64) -> String {
    let point = |(index, (seconds, value)): (usize, &(f64, f64))| {
        let command = if index == 0 { 'M' } else { 'L' };
        format!("{command}{} {}", round(x(*seconds)), round(y(*value)))
    };
    line.points.iter().enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_all_its_points_within_the_drawing() {
        let line = Line { name: "disk".to_owned(), points: vec![(1.0, 0.0), (2.0, 30.0), (3.0, 15.0)] };
        let course = Course { name: "maps".to_owned(), y_title: "maps/s".to_owned(), lines: vec![line] };
        let drawn = draw(&course, None).into_string();
        // The right end and the height of half the highest value.
        assert!(drawn.contains("L610 ") && !drawn.contains("NaN"), "{drawn}");
        // The line, and a piece of it beside its name.
        assert_eq!(drawn.matches("class=\"line line0 dash0\"").count(), 2, "{drawn}");
        let nothing = Course { lines: Vec::new(), ..course };
        assert_eq!(draw(&nothing, None).into_string(), "");
    }
}
