//! Plots: points joined by lines, both axes logarithmic. Zero lies at an axis's beginning, below all powers of ten.

use super::frame::{BOTTOM, HEIGHT, LABEL, LEFT, RIGHT, STEPS, TOP, WIDTH, colour, dash, frame, round};
use crate::page::drawing::{Line, Plot};
use crate::page::quantity::{figure, grouped};
use maud::{Markup, html};

/// Shapes of points. With the patterns of dashes they tell the first 20 lines apart without their colours.
const SHAPES: usize = 4;
/// What an axis's title ends with, since values of a few powers of ten may look evenly spaced.
const LOGARITHMIC: &str = " (log scale)";

/// The least distance between lines and the edges, as a power of ten.
const ROOM: f64 = 0.02;

/// Draws a plot, or nothing if it has no point. With a style, it is a complete SVG file; without one, a part of a page.
pub(super) fn draw(plot: &Plot, style: Option<&str>) -> Markup {
    Axes::of(plot).map(|axes| axes.draw(style)).unwrap_or_default()
}

/// A plot with its axes.
struct Axes<'p> {
    plot: &'p Plot,
    x: Axis,
    y: Axis,
}

/// An axis: the powers of ten between which all values lie, and where these are in the drawing.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// The position of a value on the axis, in units of the drawing.
    fn position(&self, value: f64) -> f64 {
        self.from + (value.log10().max(self.low) - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Whether a value lies within the axis.
    fn contains(&self, value: f64) -> bool {
        (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10())
    }
}

impl<'p> Axes<'p> {
    /// The axes of a plot; `None` if it has no point.
    fn of(plot: &'p Plot) -> Option<Self> {
        let all = || plot.lines.iter().flat_map(|line| &line.points);
        let ((x_low, x_high), (y_low, y_high)) =
            (log_range(all().map(|point| point.0))?, log_range(all().map(|point| point.1))?);
        // A single x is in the middle of its axis.
        let (x_low, x_high) =
            if x_high - x_low < 0.1 { (x_low - 0.3, x_high + 0.3) } else { (x_low, x_high) };
        let x = Axis { low: x_low, high: x_high, from: LEFT, to: WIDTH - RIGHT };
        let y = Axis { low: tick_below(y_low), high: tick_above(y_high), from: HEIGHT - BOTTOM, to: TOP };
        Some(Self { plot, x, y })
    }

    /// The plot: grid, titles, lines and their names.
    fn draw(&self, style: Option<&str>) -> Markup {
        let Self { plot, x, y } = self;
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let has_zero = plot.lines.iter().any(|line| line.points.iter().any(|point| point.1 == 0.0));
        // Zero has the axis's beginning to itself.
        let lowest_tick = if has_zero { bottom - LABEL } else { bottom };
        let content = html! {
                @for (value, is_power) in ticks(y).into_iter().filter(|(value, _)| y.position(*value) <= lowest_tick + 1e-9) {
                    @let at = round(y.position(value));
                    path.grid.minor[!is_power] d=(format!("M{LEFT} {at}H{right}")) {}
                    @if is_power { text.tick x=(LEFT - 8.0) y=(at + 4.0) text-anchor="end" { (tick_name(value)) } }
                }
                @for value in self.x_values() {
                    @let at = round(x.position(value));
                    path.grid d=(format!("M{at} {TOP}V{bottom}")) {}
                    text.tick x=(at) y=(bottom + 18.0) text-anchor="middle" { (value) }
                }
                @if let Some((value, words)) = plot.mark.as_ref().filter(|(value, _)| x.contains(*value)) {
                    @let at = round(x.position(*value));
                    path.frontier d=(format!("M{at} {TOP}V{bottom}")) {}
                    @let (beside, anchor) = beside_mark(at);
                    text.tick x=(beside) y=(TOP + 12.0) text-anchor=(anchor) { (words) }
                }
                @if has_zero {
                    text.tick x=(LEFT - 8.0) y=(bottom + 4.0) text-anchor="end" { "0" }
                }
                text.axis x=((LEFT + right) / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { (plot.x_title) (LOGARITHMIC) }
                text.axis transform=(format!("translate(14 {}) rotate(-90)", (TOP + bottom) / 2.0)) text-anchor="middle" { (plot.y_title) (LOGARITHMIC) }
                @for (index, line) in plot.lines.iter().enumerate() { (line_and_points(line, index, x, y)) }
                @for (index, at) in self.labels() { (self.end_of_line(index, at)) }
        };
        frame(&plot.name, style, &content)
    }

    /// A line's name at its end, behind the shape of its points. Where it was moved away from its line, a thin line leads to it.
    fn end_of_line(&self, index: usize, at: f64) -> Markup {
        let line = &self.plot.lines[index];
        let right = WIDTH - RIGHT;
        let end = line.points.last().map(|(x, y)| (round(self.x.position(*x)), round(self.y.position(*y))));
        // A line that ends earlier would have its name too far away.
        let end = end.filter(|(x, _)| right - x < 1.0);
        html! {
            @if let Some((x, y)) = end {
                path.leader.(colour(index)) d=(format!("M{} {y}L{} {}", x + 4.0, right + 13.0, round(at))) {}
            }
            (point(index, right + 17.0, round(at), None))
            text.label.(colour(index)) x=(right + 26.0) y=(round(at + 4.0)) { (line.name) }
        }
    }

    /// The x of all points, each once.
    fn x_values(&self) -> Vec<f64> {
        let mut values: Vec<f64> =
            self.plot.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// Where each line's name stands at its right end: the line's index and the y, moved apart so that names don't overlap.
    fn labels(&self) -> Vec<(usize, f64)> {
        let end = |(index, line): (usize, &Line)| Some((index, self.y.position(line.points.last()?.1)));
        let mut labels: Vec<(usize, f64)> = self.plot.lines.iter().enumerate().filter_map(end).collect();
        labels.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut lowest = f64::MIN;
        for (_, at) in &mut labels {
            *at = at.max(lowest + LABEL);
            lowest = *at;
        }
        // Names pushed off the lower edge push the others back.
        let mut highest = HEIGHT - BOTTOM + LABEL;
        for (_, at) in labels.iter_mut().rev() {
            *at = at.min(highest - LABEL);
            highest = *at;
        }
        labels
    }
}

/// Where a mark's words stand, and the end of theirs that stands there: on the side that has more space, so that they never reach the
/// names at the ends of lines.
fn beside_mark(at: f64) -> (f64, &'static str) {
    if at < f64::midpoint(LEFT, WIDTH - RIGHT) { (at + 5.0, "start") } else { (at - 5.0, "end") }
}

/// Ticks at 1, 2 and 5 times powers of ten, each with whether it has a label.
fn ticks(axis: &Axis) -> Vec<(f64, bool)> {
    let powers = axis.low.floor() as i32..=axis.high.ceil() as i32;
    let ticks = powers.flat_map(|power| STEPS.map(|times| (times * 10f64.powi(power), times == 1.0)));
    let ticks: Vec<(f64, bool)> = ticks.filter(|(value, _)| axis.contains(*value)).collect();
    // Where there are few powers, the others are named too.
    let is_narrow = ticks.iter().filter(|(_, is_power)| *is_power).count() < 3;
    ticks.into_iter().map(|(value, is_power)| (value, is_power || is_narrow)).collect()
}

/// The base-10 logarithms of the smallest and largest value; `None` without values. If any value is zero, the range begins one power of ten
/// lower.
fn log_range(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let above_zero = || values.clone().filter(|value| *value > 0.0).map(f64::log10);
    let has_zero = values.clone().any(|value| value == 0.0);
    let bounds = above_zero().min_by(f64::total_cmp).zip(above_zero().max_by(f64::total_cmp));
    match bounds {
        Some((low, high)) if has_zero => Some((low.floor() - 1.0, high)),
        Some(bounds) => Some(bounds),
        None => has_zero.then_some((-1.0, 0.0)),
    }
}

/// The next tick strictly below a position; both are logarithms.
fn tick_below(place: f64) -> f64 {
    let power = (place - ROOM).floor();
    let steps = STEPS.map(|times| power + times.log10());
    steps.into_iter().rev().find(|step| *step <= place - ROOM).unwrap_or(power)
}

/// The next tick strictly above a position; both are logarithms.
fn tick_above(place: f64) -> f64 {
    let power = (place + ROOM).floor();
    let steps = STEPS.map(|times| power + times.log10());
    steps.into_iter().find(|step| *step >= place + ROOM).unwrap_or(power + 1.0)
}

/// A line and its points, each with its values as a title.
fn line_and_points(line: &Line, index: usize, x: &Axis, y: &Axis) -> Markup {
    let places: Vec<(f64, f64)> =
        line.points.iter().map(|point| (round(x.position(point.0)), round(y.position(point.1)))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x} {y}")).collect();
    html! {
        path.line.(colour(index)).(dashes(index)) d=(format!("M{}", path.join("L"))) {}
        @for ((at, value), (x, y)) in line.points.iter().zip(&places) {
            (point(index, *x, *y, Some(&format!("{}: {at}, {}", line.name, figure(*value)))))
        }
    }
}

/// The pattern of a line's dashes: the same for as many lines as there are shapes of points.
fn dashes(index: usize) -> String {
    dash(index / SHAPES)
}

/// A point of a line, in the shape that the line's points have.
fn point(index: usize, x: f64, y: f64, title: Option<&str>) -> Markup {
    let class = colour(index);
    let title = html! { @if let Some(title) = title { title { (title) } } };
    let path = match index % SHAPES {
        1 => format!("M{} {}h6.4v6.4h-6.4z", round(x - 3.2), round(y - 3.2)),
        2 => format!("M{x} {}l4.4 7.4h-8.8z", round(y - 4.6)),
        3 => format!("M{x} {}l4.6 4.6l-4.6 4.6l-4.6 -4.6z", round(y - 4.6)),
        _ => return html! { circle.point.(class) cx=(x) cy=(y) r="3.5" { (title) } },
    };
    html! { path.point.(class) d=(path) { (title) } }
}

/// A tick's value in words: `1,000`, `0.1`.
fn tick_name(value: f64) -> String {
    if value >= 1.0 { grouped(value.round() as u64) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::super::frame::DASHES;
    use super::*;

    /// A plot of these lines.
    fn plot(lines: &[Line]) -> Plot {
        let text = || "a title".to_owned();
        Plot { name: text(), x_title: text(), y_title: text(), lines: lines.to_vec(), mark: None }
    }

    #[test]
    fn names_at_the_ends_of_lines_do_not_cover_each_other() {
        let line = |end: f64| Line { name: format!("{end}"), points: vec![(1.0, 10.0), (8.0, end)] };
        let plot = plot(&[10.0, 10.5, 10.2, 500.0, 11.0].map(line));
        let labels = Axes::of(&plot).unwrap().labels();
        assert_eq!(labels.len(), 5);
        assert!(labels.windows(2).all(|two| two[1].1 - two[0].1 >= LABEL - 1e-9), "{labels:?}");
        assert!(labels.iter().all(|(_, at)| (TOP..=HEIGHT - BOTTOM).contains(at)), "{labels:?}");
    }

    #[test]
    fn twenty_lines_differ_without_their_colours() {
        let shape = |index| {
            let drawn = point(index, 0.0, 0.0, None).into_string();
            (dashes(index), drawn.replace(&colour(index), ""))
        };
        let different: std::collections::BTreeSet<_> = (0..DASHES * SHAPES).map(shape).collect();
        assert_eq!(different.len(), 20);
        // All contestants of `iotoll bench map --threads`, and more than there are of any other.
        let line =
            |end: u32| Line { name: format!("line {end}"), points: vec![(1.0, 10.0), (8.0, f64::from(end))] };
        let drawn = draw(&plot(&(1..20).map(line).collect::<Vec<_>>()), None).into_string();
        assert_eq!(drawn.matches("class=\"leader").count(), 19, "{drawn}");
    }

    #[test]
    fn axes_say_that_they_are_logarithmic() {
        let drawn =
            draw(&plot(&[Line { name: "one".to_owned(), points: vec![(1.0, 10.0)] }]), None).into_string();
        assert_eq!(drawn.matches(">a title (log scale)<").count(), 2, "{drawn}");
    }

    #[test]
    fn the_words_of_a_mark_do_not_reach_the_names_of_lines() {
        let lines = [Line { name: "highest".to_owned(), points: vec![(1.0, 10.0), (2.0, 500.0)] }];
        let words_at = |at: f64| {
            let drawn =
                draw(&Plot { mark: Some((at, "2 CPUs".to_owned())), ..plot(&lines) }, None).into_string();
            drawn[..drawn.find(">2 CPUs").unwrap()].rsplit_once('<').unwrap().1.to_owned()
        };
        let right = WIDTH - RIGHT;
        assert!(
            words_at(2.0).contains(&format!("x=\"{}\"", right - 5.0)) && words_at(2.0).contains("\"end\""),
            "{}",
            words_at(2.0)
        );
        assert!(
            words_at(1.0).contains(&format!("x=\"{}\"", LEFT + 5.0)) && words_at(1.0).contains("\"start\""),
            "{}",
            words_at(1.0)
        );
    }

    #[test]
    fn zero_is_below_all_powers_of_ten() {
        let lines = [
            Line { name: "some".to_owned(), points: vec![(0.0, 100.0), (6.0, 3.0)] },
            Line { name: "none".to_owned(), points: vec![(0.0, 0.0), (6.0, 0.0)] },
        ];
        let both = plot(&lines);
        let Axes { x, y, .. } = Axes::of(&both).unwrap();
        assert_eq!(x.position(0.0), LEFT);
        assert!(
            y.position(0.0) > y.position(0.9) && y.position(0.0) <= HEIGHT - BOTTOM,
            "{}",
            y.position(0.0)
        );
        assert!(ticks(&y).len() < 20);
        // The axis begins at 0.5, where the name "0" is.
        let lines = [Line { name: "some".to_owned(), points: vec![(1.0, 0.0), (6.0, 30.0)] }];
        let names = draw(&plot(&lines), None).into_string();
        assert!(
            names.contains(">0</text>") && names.contains(">5</text>") && !names.contains(">0.5</text>"),
            "{names}"
        );
        assert!(!draw(&plot(&lines[1..]), None).into_string().contains("NaN"));
    }

    #[test]
    fn without_points_there_is_nothing_to_draw() {
        assert_eq!(draw(&plot(&[]), None).into_string(), "");
    }
}
