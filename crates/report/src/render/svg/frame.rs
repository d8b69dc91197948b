//! What all diagrams share: their size, their margins, and the element around them.

use crate::page::drawing::Line;
use crate::page::quantity::figure;
use maud::{Markup, PreEscaped, html};

pub(super) const WIDTH: f64 = 804.0;
pub(super) const HEIGHT: f64 = 420.0;
/// Margins around what is drawn, in which names and titles stand.
pub(super) const LEFT: f64 = 70.0;
pub(super) const RIGHT: f64 = 194.0;
pub(super) const TOP: f64 = 16.0;
pub(super) const BOTTOM: f64 = 48.0;
/// Height of a line of text.
pub(super) const LABEL: f64 = 14.0;
/// Colours of lines in the style sheet. Further lines have the same colours again.
const COLOURS: usize = 8;
/// Patterns of lines in the style sheet.
pub(super) const DASHES: usize = 5;
/// Characters of a title that fit into a line.
const TITLE_COLUMNS: usize = 92;
/// Height of a line of the title.
const TITLE_LINE: f64 = 18.0;
/// Ticks between powers of ten, as multiples of the lower one.
pub(super) const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// The height of a drawing of amounts over that of the largest, which needs space above it.
pub(super) const HEADROOM: f64 = 1.08;
/// The number of grid lines of an axis from zero, at most.
const TICKS: f64 = 5.0;

/// The class of a line's colour in the style sheet.
pub(super) fn colour(index: usize) -> String {
    format!("line{}", index % COLOURS)
}

/// Puts a diagram's content into an SVG of the usual size. With a style, it is a complete SVG file.
pub(super) fn frame(name: &str, style: Option<&str>, content: &Markup) -> Markup {
    frame_of_height(name, HEIGHT, style, content)
}

/// Puts a diagram's content into an SVG of the usual width, with its name above. The content has this height. With a style, it is a complete
/// SVG file.
pub(super) fn frame_of_height(name: &str, height: f64, style: Option<&str>, content: &Markup) -> Markup {
    let lines = lines_of(name);
    let title_height = TITLE_LINE * lines.len() as f64;
    let height = height + title_height;
    html! {
        svg xmlns=[style.map(|_| "http://www.w3.org/2000/svg")] class="plot" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height) role="img" aria-label=(name) {
            @if let Some(style) = style { style { (PreEscaped(style)) } }
            title { (name) }
            @for (line, number) in lines.iter().zip(1_u8..) {
                text.title x="8" y=(TITLE_LINE * f64::from(number) - 4.0) { (line) }
            }
            g transform=(format!("translate(0 {title_height})")) { (content) }
        }
    }
}

/// A title in lines that fit.
fn lines_of(title: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= TITLE_COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A length rounded to a tenth, which keeps files small.
pub(super) fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// The axis of amounts from zero up to `top`, which `y` places, in a drawing of this height: grid lines, their values, and a title.
pub(super) fn amounts(title: &str, top: f64, height: f64, y: impl Fn(f64) -> f64) -> Markup {
    let right = WIDTH - RIGHT;
    html! {
        @for value in ticks(top) {
            @let at = round(y(value));
            path.grid d=(format!("M{LEFT} {at}H{right}")) {}
            text.tick x=(LEFT - 8.0) y=(at + 4.0) text-anchor="end" { (figure(value)) }
        }
        text.axis transform=(format!("translate(14 {}) rotate(-90)", (TOP + height - BOTTOM) / 2.0)) text-anchor="middle" { (title) }
    }
}

/// The pattern of a line's dashes in the style sheet.
pub(super) fn dash(index: usize) -> String {
    format!("dash{}", index % DASHES)
}

/// The names of bars beside the drawing, each in its colour.
pub(super) fn names(lines: &[Line]) -> Markup {
    html! {
        @for (index, line) in lines.iter().enumerate() {
            text.label.(colour(index)) x=(WIDTH - RIGHT + 12.0) y=(TOP + LABEL * (index as f64 + 1.0)) { (line.name) }
        }
    }
}

/// Values of grid lines from zero up to `top`, in steps of one, two or five times a power of ten.
pub(super) fn ticks(top: f64) -> impl Iterator<Item = f64> {
    let least = top / TICKS;
    let power = 10f64.powf(least.log10().floor());
    let step = STEPS.into_iter().map(|times| times * power).find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * power);
    (0..).map(move |times| f64::from(times) * step).take_while(move |value| *value <= top)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn a_title_is_seen_and_none_of_its_words_is_lost() {
        let name = "throughput of every combination of memory, register and card ".repeat(4);
        let drawn = frame(&name, None, &html! {}).into_string();
        let shown: Vec<&str> = drawn.split("<text class=\"title\"").skip(1).collect();
        let words: Vec<&str> =
            shown.iter().map(|text| &text[text.find('>').unwrap() + 1..text.find('<').unwrap()]).collect();
        assert_eq!(words.len(), 3, "{drawn}");
        assert_eq!(words.join(" "), name.trim());
        assert!(drawn.contains("viewBox=\"0 0 804 474\"") && drawn.contains("translate(0 54)"), "{drawn}");
    }

    #[test]
    fn grid_lines_are_at_few_round_values() {
        assert_eq!(ticks(12.9).collect::<Vec<_>>(), [0.0, 5.0, 10.0]);
    }
}
