//! Bars side by side, from zero: what has names where a plot has numbers.

use crate::bench_text::figure;
use crate::plot::{BOTTOM, HEIGHT, LABEL, LEFT, Line, RIGHT, STEPS, TOP, WIDTH, colour, round, shell};
use maud::{Markup, html};

/// Of a category's width, what is left between it and the next.
const GAP_SHARE: f64 = 0.3;
/// Above the highest bar there is room for its figure.
const ROOM: f64 = 1.08;
/// Lines of the grid, about.
const TICKS: f64 = 5.0;

/// What is drawn.
pub(crate) struct Bars<'a> {
    /// What it shows, for those who don't see it.
    pub(crate) name: &'a str,
    pub(crate) y_title: &'a str,
    /// What bars stand side by side for: at 1, 2, ... of each line.
    pub(crate) categories: &'a [String],
    pub(crate) lines: &'a [Line],
}

impl Bars<'_> {
    /// The drawing; with a style it is a file of its own.
    pub(crate) fn drawing(&self, style: Option<&str>) -> Markup {
        let values = self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let highest = values.fold(0.0, f64::max);
        if highest <= 0.0 || self.categories.is_empty() {
            return html! {};
        }
        let top = highest * ROOM;
        let place = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP);
        let right = WIDTH - RIGHT;
        let content = html! {
            @for value in ticks(top) {
                @let at = round(place(value));
                path.grid d=(format!("M{LEFT} {at}H{right}")) {}
                text.tick x=(LEFT - 8.0) y=(at + 4.0) text-anchor="end" { (figure(value)) }
            }
            text.axis transform=(format!("translate(14 {}) rotate(-90)", (TOP + HEIGHT - BOTTOM) / 2.0)) text-anchor="middle" { (self.y_title) }
            @for (index, category) in self.categories.iter().enumerate() {
                text.axis x=(round(self.middle(index))) y=(HEIGHT - BOTTOM + 20.0) text-anchor="middle" { (category) }
            }
            @for (index, line) in self.lines.iter().enumerate() { (self.bars(line, index, place)) }
            @for (index, line) in self.lines.iter().enumerate() {
                text.label.(colour(index)) x=(right + 12.0) y=(TOP + LABEL * (index as f64 + 1.0)) { (line.name) }
            }
        };
        shell(self.name, style, &content)
    }

    /// A category's part of the width.
    fn width(&self) -> f64 {
        (WIDTH - RIGHT - LEFT) / self.categories.len() as f64
    }

    fn middle(&self, category: usize) -> f64 {
        LEFT + (category as f64 + 0.5) * self.width()
    }

    fn bars(&self, line: &Line, index: usize, place: impl Fn(f64) -> f64) -> Markup {
        let each = self.width() * (1.0 - GAP_SHARE) / self.lines.len() as f64;
        let shift = (index as f64 - self.lines.len() as f64 / 2.0) * each;
        html! {
            @for (category, (_, value)) in line.points.iter().enumerate() {
                @let (left, top) = (self.middle(category) + shift, place(*value));
                rect.(colour(index)) style="fill: var(--line-ink)" x=(round(left + 1.0)) y=(round(top)) width=(round(each - 2.0)) height=(round(HEIGHT - BOTTOM - top)) {
                    title { (line.name) ": " (figure(*value)) }
                }
                text.tick x=(round(left + each / 2.0)) y=(round(top - 4.0)) text-anchor="middle" { (figure(*value)) }
            }
        }
    }
}

/// From zero on, by one, two or five times a power of ten.
fn ticks(top: f64) -> impl Iterator<Item = f64> {
    let least = top / TICKS;
    let power = 10f64.powf(least.log10().floor());
    let step = STEPS.into_iter().map(|times| times * power).find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * power);
    (0..).map(move |times| f64::from(times) * step).take_while(move |value| *value <= top)
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
        let lines = [line("one", [3.0, 0.0]), line("another", [1.0, 12.0])];
        let categories = ["reads", "writes"].map(str::to_owned);
        let bars = Bars { name: "bars", y_title: "a second", categories: &categories, lines: &lines };
        let drawn = bars.drawing(None).into_string();
        assert_eq!(drawn.matches("<rect").count(), 4);
        assert!(drawn.contains("another: 12") && drawn.contains(">writes<") && !drawn.contains("NaN"));
        assert_eq!(ticks(12.9).collect::<Vec<_>>(), [0.0, 5.0, 10.0]);
        let none = Bars { lines: &[], ..bars };
        assert_eq!(none.drawing(None).into_string(), "");
    }
}
