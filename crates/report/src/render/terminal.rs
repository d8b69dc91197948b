//! Terminal text: lines of a given width, with colours or without.

mod adapters;
mod findings;
mod grid;
pub(crate) mod inspection;
mod outlook;
mod screen;
pub(crate) mod style;
mod wrap;

use crate::page::Page;
use crate::page::length::Length;
use screen::Screen;
use style::Style;

/// A page as terminal text whose lines are at most `width` columns wide, as long as that is 60 or more. Commands are not wrapped.
///
/// Details that the page has folded are left out, unless the text is to have its full length.
pub fn text(page: &Page, width: usize, style: Style, length: Length) -> String {
    let mut screen = Screen::new(width, style).with_length(length);
    screen.page(page);
    screen.into_text()
}
