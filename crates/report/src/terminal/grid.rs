//! Tables of numbers with a name in front of each row. Columns that don't fit go below, under the same
//! names.

use super::page::Page;
use crate::style::{Ink, Style};
use crate::wrap::shorten;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, TableStyle, Width};
use unicode_width::UnicodeWidthStr;

/// Blanks between columns.
const GAP: usize = 2;
/// Blanks before the names.
const INDENT: usize = 2;

/// A row.
pub(super) struct Row {
    /// Its name.
    pub(super) name: String,
    /// How the name is painted.
    pub(super) ink: Option<Ink>,
    /// A cell for each column; an empty one says that there is nothing to say.
    pub(super) cells: Vec<String>,
}

/// A table.
pub(super) struct Grid {
    /// What the names are names of.
    pub(super) names: &'static str,
    /// Titles of the columns.
    pub(super) titles: Vec<String>,
    /// The rows.
    pub(super) rows: Vec<Row>,
}

impl Grid {
    /// Writes the table, in as many parts as the page's width asks for.
    pub(super) fn show(&self, page: &mut Page) {
        let room = page.width.saturating_sub(INDENT);
        let name_width = self.name_width(room);
        let mut columns: &[usize] = &(0..self.titles.len()).collect::<Vec<_>>();
        let mut first = true;
        while !columns.is_empty() {
            if !first {
                page.blank();
            }
            first = false;
            let (part, rest) = columns.split_at(self.fitting(columns, room.saturating_sub(name_width)));
            for line in self.part(part, name_width, page.style).lines() {
                page.line(&format!("{}{line}", " ".repeat(INDENT)));
            }
            columns = rest;
        }
    }

    /// Names may take what the widest column leaves, and half of the line at least.
    fn name_width(&self, room: usize) -> usize {
        let widest = self.rows.iter().map(|row| row.name.width()).max().unwrap_or(0).max(self.names.len());
        let column = (0..self.titles.len()).map(|column| self.width(column)).max().unwrap_or(0);
        widest.min(room.saturating_sub(column + GAP).max(room / 2))
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row.cells[column].width());
        cells.max().unwrap_or(0).max(self.titles[column].width())
    }

    /// How many of the columns fit beside the names: one at least.
    fn fitting(&self, columns: &[usize], room: usize) -> usize {
        let mut used = 0;
        let fits = |column: &&usize| {
            used += self.width(**column) + GAP;
            used <= room
        };
        columns.iter().take_while(fits).count().max(1)
    }

    fn part(&self, columns: &[usize], name_width: usize, style: Style) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
        match style {
            Style::Plain => table.force_no_tty(),
            Style::Colour => table.enforce_styling(),
        };
        let title = |text: &str| style.cell(Ink::Dim, text);
        let titles = columns.iter().map(|column| right(title(&self.titles[*column])));
        table.set_header(std::iter::once(title(self.names)).chain(titles));
        for row in &self.rows {
            let name = shorten(&row.name, name_width);
            let name = row.ink.map_or_else(|| Cell::new(&name), |ink| style.cell(ink, &name));
            let cell = |column: &usize| right(Cell::new(told(&row.cells[*column])));
            table.add_row(std::iter::once(name).chain(columns.iter().map(cell)));
        }
        let widths = std::iter::once(name_width).chain(columns.iter().map(|column| self.width(*column)));
        for (index, (column, width)) in table.column_iter_mut().zip(widths).enumerate() {
            let gap = if index == 0 { 0 } else { GAP };
            column.set_padding((u16::try_from(gap).unwrap_or(0), 0));
            let whole = u16::try_from(width + gap).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(whole)));
        }
        table
    }
}

fn right(cell: Cell) -> Cell {
    cell.set_alignment(CellAlignment::Right)
}

fn told(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
