//! Lines of a terminal, written from top to bottom.

use super::grid::Grid;
use super::style::Style;
use super::wrap::wrap;
use crate::page::fact::{Fact, Value};
use crate::page::ink::Ink;
use crate::page::length::{Length, MORE};
use crate::page::quantity;
use crate::page::shorten::shorten;
use crate::page::table::Table;
use crate::page::{Block, Item, Lead, Page};
use escape::terminal::plain;
use unicode_width::UnicodeWidthStr;

/// Prose wider than this is hard to read, however wide the terminal.
const PROSE_MAX: usize = 120;

/// Columns of one text in a folded report. It is ten times the longest text of iotoll's own; longer ones come from outside.
const TEXT_COLUMNS_MAX: usize = 8_000;

/// The lines of a report written so far, with the width and style of the lines to come.
pub(super) struct Screen {
    text: String,
    /// Columns of the terminal.
    pub(super) width: usize,
    pub(super) style: Style,
    /// How much is shown of long lists and texts.
    pub(super) length: Length,
}

impl Screen {
    /// An empty screen of this width, for a folded report.
    pub(super) fn new(width: usize, style: Style) -> Self {
        Self { text: String::new(), width, style, length: Length::Folded }
    }

    /// Sets whether long lists and texts are cut.
    pub(super) fn with_length(self, length: Length) -> Self {
        Self { length, ..self }
    }

    /// The finished text.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes a page.
    pub(super) fn page(&mut self, page: &Page) {
        if let Some(title) = &page.title {
            self.title(title);
        }
        self.blocks(&page.blocks);
    }

    /// Writes the blocks of a page.
    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Warning(warning) => self.warning(warning),
                Block::Heading(title) => self.heading(title),
                Block::Fact(fact, names_width) => self.fact(fact, *names_width),
                Block::Prose(text, indent) => self.prose(text, *indent),
                Block::Remark(text) => self.prose(text, 2),
                Block::Item(item) => self.page_item(item),
                Block::Table(table) => self.table(table),
                Block::Drawing(_) => {}
                Block::Line(line) => self.line(&plain(line)),
                Block::Blank => self.blank(),
                Block::Details(details) => {
                    if details.is_open || self.length == Length::Full {
                        self.heading(&details.summary);
                        self.blocks(&details.blocks);
                    }
                }
            }
        }
    }

    /// Writes an entry of a page's list.
    fn page_item(&mut self, item: &Item) {
        match &item.lead {
            Lead::Mark(mark) => self.item(mark, &item.text, item.indent),
            Lead::Painted(ink, lead) => {
                self.hanging(&self.style.paint(*ink, lead), lead.width(), &item.text, item.indent);
            }
            Lead::Name(name) => {
                let name = shorten(&plain(name), self.width / 3);
                let lead = format!("{}: ", self.style.paint(Ink::Strong, &name));
                self.hanging(&lead, name.width() + 2, &item.text, item.indent);
            }
        }
    }

    /// Writes how many more entries there are than were shown, and the option that shows them.
    pub(super) fn entries_left_out(&mut self, more: usize, noun: &str, indent: usize) {
        if more > 0 {
            self.prose(&format!("and {}: {MORE}", quantity::count(more, noun)), indent);
        }
    }

    /// Writes a line without wrapping it.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Writes a table.
    pub(super) fn table(&mut self, table: &Table) {
        for line in Grid(table).layout(self.width, self.style) {
            self.line(&line);
        }
    }

    /// Writes an empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Writes a title, painted and wrapped.
    pub(super) fn title(&mut self, title: &str) {
        for line in wrap(&plain(title), self.prose_width()) {
            let line = self.style.paint(Ink::Heading, &line);
            self.line(&line);
        }
    }

    /// Writes a title below an empty line.
    pub(super) fn heading(&mut self, title: &str) {
        self.blank();
        self.title(title);
    }

    /// Writes a paragraph; all its lines are indented alike.
    pub(super) fn prose(&mut self, text: &str, indent: usize) {
        self.hanging("", 0, text, indent);
    }

    /// Writes a list entry: a paragraph with a hanging indent after a mark such as `- `.
    pub(super) fn item(&mut self, mark: &str, text: &str, indent: usize) {
        self.hanging(mark, mark.width(), text, indent);
    }

    /// Writes a paragraph with a hanging indent: `lead` stands before its first line, and takes `lead_width` columns without escape sequences.
    pub(super) fn hanging(&mut self, lead: &str, lead_width: usize, text: &str, indent: usize) {
        self.hanging_in_ink(lead, lead_width, text, indent, None);
    }

    /// Writes a fact: its name in a column of `names_width`, and its value beside it.
    pub(super) fn fact(&mut self, fact: &Fact, names_width: usize) {
        // The column grows for a name that is longer than expected.
        let pad = names_width.saturating_sub(fact.label.chars().count()).max(1);
        let width = fact.label.chars().count() + pad;
        let lead = format!("{}{}", self.style.paint(Ink::Dim, &fact.label), " ".repeat(pad));
        let ink = match &fact.value {
            Value::Command(command) => return self.line(&format!("  {lead}{}", plain(command))),
            Value::Known(_) => None,
            Value::Absent(_) => Some(Ink::Dim),
            Value::Unknown(_) => Some(Ink::UNKNOWN),
        };
        self.hanging_in_ink(&lead, width, &fact.value.to_string(), 2, ink);
    }

    /// Writes a paragraph with a hanging indent, in the colour of `ink`.
    fn hanging_in_ink(&mut self, lead: &str, lead_width: usize, text: &str, indent: usize, ink: Option<Ink>) {
        let text_width = self.prose_width().saturating_sub(indent + lead_width);
        for (index, line) in wrap(&self.cut_if_folded(&plain(text)), text_width).iter().enumerate() {
            let painted = ink.map_or_else(|| line.clone(), |ink| self.style.paint(ink, line));
            let line = match index {
                0 => format!("{}{lead}{painted}", " ".repeat(indent)),
                _ => format!("{}{painted}", " ".repeat(indent + lead_width)),
            };
            self.line(&line);
        }
    }

    /// Writes a warning.
    pub(super) fn warning(&mut self, warning: &str) {
        let mark = self.style.paint(Ink::WARNING, "warning ");
        self.hanging(&mark, "warning ".len(), warning, 2);
    }

    /// Cuts the text to [`TEXT_COLUMNS_MAX`] in a folded report.
    fn cut_if_folded(&self, text: &str) -> String {
        match self.length {
            Length::Folded => shorten(text, TEXT_COLUMNS_MAX),
            Length::Full => text.to_owned(),
        }
    }

    /// The width of paragraphs in columns.
    fn prose_width(&self) -> usize {
        self.width.min(PROSE_MAX)
    }
}
