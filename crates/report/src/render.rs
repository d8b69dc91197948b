//! Layout: pages as terminal text and as HTML, drawings as SVG. Words and numbers come from the other rooms.

pub(crate) mod html;
pub(crate) mod svg;
pub(crate) mod terminal;
