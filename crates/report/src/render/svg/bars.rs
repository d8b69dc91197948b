//! Bars side by side, from zero: for categories that have names and no numbers.

use super::frame::{BOTTOM, HEADROOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, amounts, colour, frame, names, round};
use crate::page::drawing::{Bars, Line};
use crate::page::quantity::figure;
use maud::{Markup, html};

/// The gap between two categories, as a share of a category's width.
const GAP_SHARE: f64 = 0.3;
/// Draws bars, or nothing if all are zero. With a style, it is a complete SVG file; without one, a part of a page.
pub(super) fn draw(bars: &Bars, style: Option<&str>) -> Markup {
    let values = bars.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let highest = values.fold(0.0, f64::max);
    if highest <= 0.0 || bars.categories.is_empty() {
        return html! {};
    }
    let top = highest * HEADROOM;
    let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
    let content = html! {
        (amounts(&bars.y_title, top, HEIGHT, y))
        @for (index, category) in bars.categories.iter().enumerate() {
            text.axis x=(round(middle(bars, index))) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" { (category) }
        }
        @for (index, line) in bars.lines.iter().enumerate() { (bars_of(bars, line, index, y)) }
        (names(&bars.lines))
    };
    frame(&bars.name, style, &content)
}

/// The width of a category.
fn width(bars: &Bars) -> f64 {
    (WIDTH - RIGHT - LEFT) / bars.categories.len() as f64
}

/// The x of a category's middle.
fn middle(bars: &Bars, category: usize) -> f64 {
    LEFT + (category as f64 + 0.5) * width(bars)
}

/// The bars of one line, each with its figure on top.
fn bars_of(bars: &Bars, line: &Line, index: usize, y: impl Fn(f64) -> f64) -> Markup {
    let each = width(bars) * (1.0 - GAP_SHARE) / bars.lines.len() as f64;
    let shift = (index as f64 - bars.lines.len() as f64 / 2.0) * each;
    html! {
        @for (category, (_, value)) in line.points.iter().enumerate() {
            @let (left, top) = (middle(bars, category) + shift, y(*value));
            rect.(colour(index)) style="fill: var(--line-ink)" x=(round(left + 1.0)) y=(round(top)) width=(round(each - 2.0)) height=(round(HEIGHT - BOTTOM - top)) {
                title { (line.name) ": " (figure(*value)) }
            }
            text.tick x=(round(left + each / 2.0)) y=(round(top - 4.0)) text-anchor="middle" { (figure(*value)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_bar_of_each_line() {
        let line = |name: &str, values: [f64; 2]| Line {
            name: name.to_owned(),
            points: (1..).map(f64::from).zip(values).collect(),
        };
        let lines = vec![line("one", [3.0, 0.0]), line("another", [1.0, 12.0])];
        let categories = ["reads", "writes"].map(str::to_owned).to_vec();
        let bars = Bars { name: "bars".to_owned(), y_title: "a second".to_owned(), categories, lines };
        let drawn = draw(&bars, None).into_string();
        assert_eq!(drawn.matches("<rect").count(), 4);
        assert!(drawn.contains("another: 12") && drawn.contains(">writes<") && !drawn.contains("NaN"));
        let none = Bars { lines: Vec::new(), ..bars };
        assert_eq!(draw(&none, None).into_string(), "");
    }
}
