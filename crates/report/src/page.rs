//! A report before it is laid out: a title, and blocks of text, facts, tables and drawings in reading order.
//!
//! `answers`, `benchmarks`, `sheets` and `reproductions` build a [`Page`]; `render` turns it into terminal text or into HTML. Each
//! thing is thus put into words once. A block says what it is, and the renderer decides how that looks:
//!
//! ```text
//! results of models and benchmarks ──▶ Page ──▶ render::terminal   text of a given width
//!                                           └─▶ render::html       one self-contained document
//! ```
//!
//! Nothing here knows hosts' rules, models or escape sequences.

pub(crate) mod cost;
pub(crate) mod drawing;
pub(crate) mod fact;
pub(crate) mod ink;
pub(crate) mod length;
pub(crate) mod quantity;
pub(crate) mod shorten;
pub(crate) mod table;

use drawing::Drawing;
use fact::Fact;
use ink::Ink;
use table::Table;

/// A report before it is laid out; [`crate::text`] and [`crate::html`] lay it out.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// What the page is about; none on a page that is a part of another report.
    pub(crate) title: Option<String>,
    pub(crate) blocks: Vec<Block>,
}

/// A part of a [`Page`].
#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// A warning: a reason to doubt the results.
    Warning(String),
    /// The title of the blocks after it.
    Heading(String),
    /// A fact; on a terminal its name takes this many columns.
    Fact(Fact, usize),
    /// A paragraph, on a terminal indented by this many columns.
    Prose(String, usize),
    /// A paragraph in smaller type that explains what stands beside it.
    Remark(String),
    /// An entry of a list.
    Item(Item),
    Table(Table),
    /// Shown by renderers that can draw.
    Drawing(Drawing),
    /// A line that is never wrapped, such as a command to paste.
    Line(String),
    /// An empty line of a terminal.
    Blank,
    /// Blocks that the reader can fold and unfold.
    Details(Details),
}

/// An entry of a list: a lead, and text that hangs beside it.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) lead: Lead,
    pub(crate) text: String,
    /// Columns before the lead on a terminal.
    pub(crate) indent: usize,
}

/// What an [`Item`] begins with.
#[derive(Debug, Clone)]
pub(crate) enum Lead {
    /// A bullet or a word with the blank after it, as in `- `.
    Mark(String),
    /// A bullet or a word with the blank after it, painted.
    Painted(Ink, String),
    /// The name of what the text describes; a colon follows. On a terminal it is cut to a third of the width.
    Name(String),
}

/// Blocks that the reader can fold and unfold.
#[derive(Debug, Clone)]
pub(crate) struct Details {
    /// Shown while folded.
    pub(crate) summary: String,
    /// The target of links to it in HTML.
    pub(crate) anchor: String,
    /// Whether it is unfolded at first. A terminal leaves out what is folded, unless asked for the report in full.
    pub(crate) is_open: bool,
    pub(crate) blocks: Vec<Block>,
}

impl Page {
    /// An empty page of this title.
    pub(crate) fn titled(title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), blocks: Vec::new() }
    }

    /// Adds a block.
    pub(crate) fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds a heading, the title of the blocks after it.
    pub(crate) fn heading(&mut self, title: impl Into<String>) {
        self.push(Block::Heading(title.into()));
    }

    /// Adds facts whose names share a column of `names_width`.
    pub(crate) fn facts(&mut self, facts: impl IntoIterator<Item = Fact>, names_width: usize) {
        self.blocks.extend(facts.into_iter().map(|fact| Block::Fact(fact, names_width)));
    }

    /// Adds a paragraph.
    pub(crate) fn prose(&mut self, text: impl Into<String>, indent: usize) {
        self.push(Block::Prose(text.into(), indent));
    }

    /// Adds a paragraph in smaller type.
    pub(crate) fn remark(&mut self, text: impl Into<String>) {
        self.push(Block::Remark(text.into()));
    }

    /// Adds an entry of a list with a bullet.
    pub(crate) fn bullet(&mut self, text: impl Into<String>) {
        self.item(Lead::Mark("- ".to_owned()), text);
    }

    /// Adds an entry of a list.
    pub(crate) fn item(&mut self, lead: Lead, text: impl Into<String>) {
        self.push(Block::Item(Item { lead, text: text.into(), indent: 2 }));
    }

    /// Adds a table.
    pub(crate) fn table(&mut self, table: Table) {
        self.push(Block::Table(table));
    }

    /// Adds a line that is never wrapped.
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.push(Block::Line(line.into()));
    }

    /// Adds an empty line, for terminals.
    pub(crate) fn blank(&mut self) {
        self.push(Block::Blank);
    }

    /// Adds warnings, which are reasons to doubt the results.
    pub(crate) fn warnings(&mut self, warnings: &[String]) {
        self.blocks.extend(warnings.iter().cloned().map(Block::Warning));
    }
}
