//! Lines between points, both axes logarithmic. What is zero lies on an axis's beginning, a power of ten below all others.

use maud::{Markup, PreEscaped, html};

pub(crate) const WIDTH: f64 = 760.0;
pub(crate) const HEIGHT: f64 = 420.0;
pub(crate) const LEFT: f64 = 70.0;
pub(crate) const RIGHT: f64 = 150.0;
pub(crate) const TOP: f64 = 16.0;
pub(crate) const BOTTOM: f64 = 48.0;
/// Lines of text need so much.
pub(crate) const LABEL: f64 = 14.0;
/// Colours that the style sheet has; more lines begin anew, with another dash.
const COLOURS: usize = 8;

/// Ticks between powers of ten.
pub(crate) const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Between lines and the edges, as a power of ten.
const ROOM: f64 = 0.02;

/// A line with its name.
pub(crate) struct Line {
    pub(crate) name: String,
    /// None of them negative; in order of the first.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What is drawn.
pub(crate) struct Plot<'a> {
    /// What it shows, for those who don't see it.
    pub(crate) name: &'a str,
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    pub(crate) lines: &'a [Line],
    /// A place on the first axis worth a mark, and its words.
    pub(crate) mark: Option<(f64, String)>,
}

/// The powers between which all values of an axis lie.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        self.from + (value.log10().max(self.low) - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn holds(&self, value: f64) -> bool {
        (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10())
    }
}

impl Plot<'_> {
    fn axes(&self) -> Option<(Axis, Axis)> {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let ((x_low, x_high), (y_low, y_high)) =
            (powers(all().map(|point| point.0))?, powers(all().map(|point| point.1))?);
        // A single place on an axis is in its middle.
        let (x_low, x_high) =
            if x_high - x_low < 0.1 { (x_low - 0.3, x_high + 0.3) } else { (x_low, x_high) };
        let x = Axis { low: x_low, high: x_high, from: LEFT, to: WIDTH - RIGHT };
        let y = Axis { low: below(y_low), high: above(y_high), from: HEIGHT - BOTTOM, to: TOP };
        Some((x, y))
    }

    /// The drawing; nothing if there is no point.
    pub(crate) fn draw(&self) -> Markup {
        self.drawing(None)
    }

    /// The drawing as a file of its own, with its style in it.
    pub(crate) fn file(&self, style: &str) -> Markup {
        self.drawing(Some(style))
    }

    fn drawing(&self, style: Option<&str>) -> Markup {
        let Some((x, y)) = self.axes() else { return html! {} };
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let content = html! {
                @for (value, is_power) in self.ticks(&y) {
                    @let at = round(y.place(value));
                    path.grid.minor[!is_power] d=(format!("M{LEFT} {at}H{right}")) {}
                    @if is_power { text.tick x=(LEFT - 8.0) y=(at + 4.0) text-anchor="end" { (power(value)) } }
                }
                @for value in self.places() {
                    @let at = round(x.place(value));
                    path.grid d=(format!("M{at} {TOP}V{bottom}")) {}
                    text.tick x=(at) y=(bottom + 18.0) text-anchor="middle" { (value) }
                }
                @if let Some((value, words)) = self.mark.as_ref().filter(|(value, _)| x.holds(*value)) {
                    @let at = round(x.place(*value));
                    path.frontier d=(format!("M{at} {TOP}V{bottom}")) {}
                    text.tick x=(at + 5.0) y=(TOP + 12.0) { (words) }
                }
                @if self.lines.iter().any(|line| line.points.iter().any(|point| point.1 == 0.0)) {
                    text.tick x=(LEFT - 8.0) y=(bottom + 4.0) text-anchor="end" { "0" }
                }
                text.axis x=((LEFT + right) / 2.0) y=(HEIGHT - 8.0) text-anchor="middle" { (self.x_title) }
                text.axis transform=(format!("translate(14 {}) rotate(-90)", (TOP + bottom) / 2.0)) text-anchor="middle" { (self.y_title) }
                @for (index, line) in self.lines.iter().enumerate() { (drawn(line, index, &x, &y)) }
                @for (index, at) in self.labels(&y) {
                    text.label.(colour(index)) x=(right + 12.0) y=(round(at + 4.0)) { (self.lines[index].name) }
                }
        };
        shell(self.name, style, &content)
    }

    /// Places on the first axis that any line has.
    fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// Powers of ten, and between them 2 and 5 times these.
    fn ticks(&self, axis: &Axis) -> Vec<(f64, bool)> {
        let powers = axis.low.floor() as i32..=axis.high.ceil() as i32;
        let ticks = powers.flat_map(|power| STEPS.map(|times| (times * 10f64.powi(power), times == 1.0)));
        let ticks: Vec<(f64, bool)> = ticks.filter(|(value, _)| axis.holds(*value)).collect();
        // Where there are few powers, the others are named too.
        let is_narrow = ticks.iter().filter(|(_, is_power)| *is_power).count() < 3;
        ticks.into_iter().map(|(value, is_power)| (value, is_power || is_narrow)).collect()
    }

    /// Heights of the names at the ends of lines, moved apart.
    fn labels(&self, y: &Axis) -> Vec<(usize, f64)> {
        let end = |(index, line): (usize, &Line)| Some((index, y.place(line.points.last()?.1)));
        let mut labels: Vec<(usize, f64)> = self.lines.iter().enumerate().filter_map(end).collect();
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

/// The powers between which values lie; `None` without values. Where some are zero there is room for them below.
fn powers(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let above_zero = || values.clone().filter(|value| *value > 0.0).map(f64::log10);
    let has_zero = values.clone().any(|value| value == 0.0);
    let bounds = above_zero().min_by(f64::total_cmp).zip(above_zero().max_by(f64::total_cmp));
    match bounds {
        Some((low, high)) if has_zero => Some((low.floor() - 1.0, high)),
        Some(bounds) => Some(bounds),
        None => has_zero.then_some((-1.0, 0.0)),
    }
}

/// The next tick below a place on an axis, and not at it.
fn below(place: f64) -> f64 {
    let power = (place - ROOM).floor();
    let steps = STEPS.map(|times| power + times.log10());
    steps.into_iter().rev().find(|step| *step <= place - ROOM).unwrap_or(power)
}

/// The next one above.
fn above(place: f64) -> f64 {
    let power = (place + ROOM).floor();
    let steps = STEPS.map(|times| power + times.log10());
    steps.into_iter().find(|step| *step >= place + ROOM).unwrap_or(power + 1.0)
}

pub(crate) fn colour(index: usize) -> String {
    format!("line{}", index % COLOURS)
}

/// A drawing of the plots' size; with a style it is a file of its own.
pub(crate) fn shell(name: &str, style: Option<&str>, content: &Markup) -> Markup {
    html! {
        svg xmlns=[style.map(|_| "http://www.w3.org/2000/svg")] class="plot" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) width=(WIDTH) height=(HEIGHT) role="img" aria-label=(name) {
            @if let Some(style) = style { style { (PreEscaped(style)) } }
            title { (name) }
            (content)
        }
    }
}

fn drawn(line: &Line, index: usize, x: &Axis, y: &Axis) -> Markup {
    let places: Vec<(f64, f64)> =
        line.points.iter().map(|point| (round(x.place(point.0)), round(y.place(point.1)))).collect();
    let path: Vec<String> = places.iter().map(|(x, y)| format!("{x} {y}")).collect();
    let class = colour(index);
    html! {
        path.line.dashed[index >= COLOURS].(class) d=(format!("M{}", path.join("L"))) {}
        @for (point, (x, y)) in line.points.iter().zip(&places) {
            circle.point.(class) cx=(x) cy=(y) r="3.5" { title { (line.name) ": " (point.0) ", " (crate::bench_text::figure(point.1)) } }
        }
    }
}

/// Places to a tenth.
pub(crate) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// A power of ten as people write it.
fn power(value: f64) -> String {
    if value >= 1.0 { crate::quantity::grouped(value.round() as u64) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_the_ends_of_lines_do_not_cover_each_other() {
        let line = |end: f64| Line { name: format!("{end}"), points: vec![(1.0, 10.0), (8.0, end)] };
        let lines: Vec<Line> = [10.0, 10.5, 10.2, 500.0, 11.0].map(line).into();
        let plot = Plot { name: "a plot", x_title: "x", y_title: "y", lines: &lines, mark: None };
        let (_, y) = plot.axes().unwrap();
        let labels = plot.labels(&y);
        assert_eq!(labels.len(), 5);
        assert!(labels.windows(2).all(|two| two[1].1 - two[0].1 >= LABEL - 1e-9), "{labels:?}");
        assert!(labels.iter().all(|(_, at)| (TOP..=HEIGHT - BOTTOM).contains(at)), "{labels:?}");
    }

    #[test]
    fn nothing_lies_below_all_powers() {
        let lines = [
            Line { name: "some".to_owned(), points: vec![(0.0, 100.0), (6.0, 3.0)] },
            Line { name: "none".to_owned(), points: vec![(0.0, 0.0), (6.0, 0.0)] },
        ];
        let plot = Plot { name: "", x_title: "x", y_title: "y", lines: &lines, mark: None };
        let (x, y) = plot.axes().unwrap();
        assert_eq!(x.place(0.0), LEFT);
        assert!(y.place(0.0) > y.place(0.9) && y.place(0.0) <= HEIGHT - BOTTOM, "{}", y.place(0.0));
        assert!(plot.ticks(&y).len() < 20);
        let zeros = Plot { lines: &lines[1..], ..plot };
        assert!(!zeros.draw().into_string().contains("NaN"));
    }

    #[test]
    fn without_points_there_is_nothing_to_draw() {
        let plot = Plot { name: "", x_title: "", y_title: "", lines: &[], mark: None };
        assert_eq!(plot.draw().into_string(), "");
    }
}
