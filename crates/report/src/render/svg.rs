//! SVG: diagrams of pages, the tree of PCI bridges, and marks. Their colours are those of the style sheet around them.

mod bars;
mod course;
mod errors;
mod flame;
mod frame;
mod marks;
mod plot;
mod tree;

pub(super) use marks::{mark, severity_mark, swatch};
pub(super) use tree::tree;

use crate::page::drawing::{Drawing, Kind};
use maud::Markup;

/// The style sheet of diagrams.
pub(super) const STYLE: &str = include_str!("svg/plot.css");

/// What diagrams of errors have besides.
pub(super) const ERRORS_STYLE: &str = include_str!("svg/errors.css");

/// What flame graphs have besides.
pub(super) const FLAME_STYLE: &str = include_str!("svg/flame.css");

/// The part of the pages' style that a diagram in its own file needs.
const FILE_STYLE: &str = "\
svg { --paper: #fdfdfb; --soft: #5b636d; --line: #d9dcde; background: var(--paper); font-family: system-ui, 'DejaVu Sans', sans-serif }
svg.plot:root { margin: 0 }
@media (prefers-color-scheme: dark) { svg { --paper: #15181c; --soft: #9aa3ad; --line: #343a41 } }
";

/// A diagram, to be placed in a page that has [`STYLE`].
pub(super) fn diagram(drawing: &Drawing) -> Markup {
    draw(drawing, None)
}

/// A diagram as an SVG file; light or dark as the page that shows it.
pub fn svg_file(drawing: &Drawing) -> String {
    let own_style = match drawing.0 {
        Kind::Errors(_) => ERRORS_STYLE,
        Kind::Flame(_) => FLAME_STYLE,
        Kind::Plot(_) | Kind::Bars(_) | Kind::Course(_) => "",
    };
    draw(drawing, Some(&format!("{FILE_STYLE}{STYLE}{own_style}"))).into_string() + "\n"
}

/// Draws any kind of diagram. With a style, it is a complete SVG file; without one, a part of a page.
fn draw(drawing: &Drawing, style: Option<&str>) -> Markup {
    match &drawing.0 {
        Kind::Plot(plot) => plot::draw(plot, style),
        Kind::Bars(bars) => bars::draw(bars, style),
        Kind::Errors(errors) => errors::draw(errors, style),
        Kind::Course(course) => course::draw(course, style),
        Kind::Flame(flame) => flame::draw(flame, style),
    }
}
