//! Functions that called each other: a rectangle for each, as wide as its time, on that of its caller.

use super::frame::{WIDTH, colour, frame_of_height, round};
use super::tree::cut_to_width;
use crate::page::drawing::{Flame, Frame};
use escape::terminal::plain;
use maud::{Markup, html};

/// Height of a rectangle with the gap to the next.
const ROW: f64 = 22.0;
const GAP: f64 = 1.0;
const MARGIN: f64 = 8.0;
/// Less has no room for a few characters.
const NAME_WIDTH_MIN: f64 = 36.0;
/// Narrower rectangles are too thin to see.
const WIDTH_MIN: f64 = 0.4;

/// Draws the functions, or nothing if they took no time. With a style, it is a complete SVG file; without one, a part of a page.
pub(super) fn draw(flame: &Flame, style: Option<&str>) -> Markup {
    let time = sum(&flame.frames);
    if time <= 0.0 {
        return html! {};
    }
    let height = depth(&flame.frames) as f64 * ROW + 2.0 * MARGIN;
    let scale = (WIDTH - 2.0 * MARGIN) / time;
    let content = side_by_side(&flame.frames, MARGIN, height - MARGIN, scale);
    frame_of_height(&plain(&flame.name), height, style, &content)
}

fn sum(frames: &[Frame]) -> f64 {
    frames.iter().map(|frame| frame.time).sum()
}

fn depth(frames: &[Frame]) -> usize {
    frames.iter().map(|frame| 1 + depth(&frame.frames)).max().unwrap_or(0)
}

/// Functions beside each other from `left` on, standing on `bottom`.
fn side_by_side(frames: &[Frame], left: f64, bottom: f64, scale: f64) -> Markup {
    let mut left = left;
    let mut placed = Vec::new();
    for frame in frames {
        let width = frame.time * scale;
        if width >= WIDTH_MIN {
            placed.push((frame, left, width));
        }
        left += width;
    }
    html! {
        @for (frame, left, width) in placed {
            g {
                title { (plain(&frame.label)) }
                rect.frame.(colour(frame.colour)) x=(round(left)) y=(round(bottom - ROW)) width=(round((width - GAP).max(WIDTH_MIN))) height=(ROW - GAP) {}
                text.frame x=(round(left + 4.0)) y=(round(bottom - 6.0)) { (cut(&plain(&frame.name), width - 8.0)) }
            }
            (side_by_side(&frame.frames, left, bottom - ROW, scale))
        }
    }
}

/// As much of a name as fits into a width; nothing if that is no more than a few characters.
fn cut(name: &str, width: f64) -> String {
    if width < NAME_WIDTH_MIN { String::new() } else { cut_to_width(name, width as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(name: &str, time: f64, frames: Vec<Frame>) -> Frame {
        Frame { name: name.to_owned(), time, label: format!("{name} <{time}>"), colour: 0, frames }
    }

    #[test]
    fn widths_are_shares_of_the_time_and_callees_stand_on_their_caller() {
        let frames = vec![
            frame("caller", 30.0, vec![frame("callee", 10.0, Vec::new())]),
            frame("other", 10.0, Vec::new()),
        ];
        let flame = Flame { name: "time".to_owned(), frames };
        let drawn = draw(&flame, None).into_string();
        // 788 units are 40: 591, 197 and 197, less the gap.
        assert_eq!(drawn.matches("width=\"590\"").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("width=\"196\"").count(), 2, "{drawn}");
        assert!(drawn.contains("caller &lt;30&gt;") && !drawn.contains("NaN"), "{drawn}");
        // The callee is a row above.
        assert_eq!(drawn.matches(" y=\"30\"").count(), 2, "{drawn}");
        assert_eq!(drawn.matches(" y=\"8\"").count(), 1, "{drawn}");
        assert_eq!(draw(&Flame { name: String::new(), frames: Vec::new() }, None).into_string(), "");
    }

    #[test]
    fn names_are_cut_to_the_width() {
        let cuts = [200.0, 60.0, 20.0].map(|width| cut("dma_map_page", width));
        assert!(
            cuts[0] == "dma_map_page"
                && cuts[1].starts_with("dma")
                && cuts[1].ends_with('…')
                && cuts[2].is_empty(),
            "{cuts:?}"
        );
    }
}
