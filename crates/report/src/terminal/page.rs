//! Lines of a terminal, built from the top.

use crate::fact::Fact;
use crate::length::{Length, MORE};
use crate::quantity;
use crate::style::{Ink, Style};
use crate::wrap::{shorten, wrap};
use escape::terminal::plain;
use host::diagnose::Severity;
use model::Part;

/// Prose wider than this is hard to read, however wide the terminal.
const PROSE_MAX: usize = 120;

/// Of one text, unless all is asked for: ten times the longest that is iotoll's own.
const TEXT_COLUMNS_MAX: usize = 8_000;

/// What was written so far.
pub(super) struct Page {
    text: String,
    /// Columns of the terminal.
    pub(super) width: usize,
    /// Whether to colour.
    pub(super) style: Style,
    /// How much to show of what there is too much of.
    pub(super) length: Length,
}

impl Page {
    pub(super) fn new(width: usize, style: Style) -> Self {
        Self { text: String::new(), width, style, length: Length::Folded }
    }

    /// The same of this length.
    pub(super) fn of_length(self, length: Length) -> Self {
        Self { length, ..self }
    }

    /// Says how many more there are than are shown.
    pub(super) fn more(&mut self, more: usize, of_what: &str, indent: usize) {
        if more > 0 {
            self.prose(&format!("and {}: {MORE}", quantity::count(more, of_what)), indent);
        }
    }

    /// The finished text.
    pub(super) fn done(self) -> String {
        self.text
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// An empty line.
    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// What the page is about.
    pub(super) fn title(&mut self, title: &str) {
        for line in wrap(&plain(title), self.prose_width()) {
            let line = self.style.paint(Ink::Heading, &line);
            self.line(&line);
        }
    }

    /// The name of a part.
    pub(super) fn heading(&mut self, title: &str) {
        self.blank();
        self.title(title);
    }

    /// Prose, all lines indented alike.
    pub(super) fn prose(&mut self, text: &str, indent: usize) {
        self.led("", 0, text, indent);
    }

    /// Prose that begins with a mark, under which the following lines are not placed.
    pub(super) fn item(&mut self, mark: &str, text: &str, indent: usize) {
        self.led(mark, mark.len(), text, indent);
    }

    /// Prose after a lead of `lead_width` columns (which may be painted), hanging.
    pub(super) fn led(&mut self, lead: &str, lead_width: usize, text: &str, indent: usize) {
        self.inked(lead, lead_width, text, indent, None);
    }

    /// A fact: its name in a column of `label_width`, its value hanging.
    pub(super) fn fact(&mut self, fact: &Fact, label_width: usize) {
        // Labels are plain text of few characters; the column grows for a long one.
        let pad = label_width.saturating_sub(fact.label.chars().count()).max(1);
        let width = fact.label.chars().count() + pad;
        let lead = format!("{}{}", self.style.paint(Ink::Dim, &fact.label), " ".repeat(pad));
        self.inked(&lead, width, &fact.value.to_string(), 2, fact.value.ink());
    }

    fn inked(&mut self, lead: &str, lead_width: usize, text: &str, indent: usize, ink: Option<Ink>) {
        let room = self.prose_width().saturating_sub(indent + lead_width);
        for (index, line) in wrap(&self.bounded(&plain(text)), room).iter().enumerate() {
            let painted = ink.map_or_else(|| line.clone(), |ink| self.style.paint(ink, line));
            let line = match index {
                0 => format!("{}{lead}{painted}", " ".repeat(indent)),
                _ => format!("{}{painted}", " ".repeat(indent + lead_width)),
            };
            self.line(&line);
        }
    }

    /// How busy parts of a model's machine are.
    pub(super) fn parts(&mut self, title: &str, parts: &[Part]) {
        self.heading(title);
        for part in parts {
            self.item("- ", &format!("{}: {:.1} %", part.name, part.busy_share * 100.0), 2);
        }
    }

    /// What casts doubt on what follows.
    pub(super) fn warnings(&mut self, warnings: &[String]) {
        for warning in warnings {
            let mark = self.style.paint(Ink::Severity(Severity::Warning), "warning ");
            self.led(&mark, "warning ".len(), &plain(warning), 2);
        }
    }

    /// A text from outside may be as long as a file.
    fn bounded(&self, text: &str) -> String {
        match self.length {
            Length::Folded => shorten(text, TEXT_COLUMNS_MAX),
            Length::Full => text.to_owned(),
        }
    }

    fn prose_width(&self) -> usize {
        self.width.min(PROSE_MAX)
    }
}
