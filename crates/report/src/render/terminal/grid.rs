//! Tables on a terminal. Columns that don't fit beside the others go into a second part below, with the row names again.

use super::style::Style;
use super::wrap::wrap;
use crate::page::ink::Ink;
use crate::page::shorten::shorten;
use crate::page::table::{Row, Table};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, TableStyle, Width};
use std::collections::VecDeque;
use unicode_width::UnicodeWidthStr;

/// Blanks between columns.
const GAP: usize = 2;
/// Blanks before the names.
const INDENT: usize = 2;

/// A table to be laid out.
pub(super) struct Grid<'t>(pub(super) &'t Table);

/// A line of the table: a part of a name, and the cells of a row, which stand beside the name's first line.
struct Line<'t> {
    name: String,
    ink: Option<Ink>,
    cells: Option<&'t Row>,
    is_title: bool,
}

impl Grid<'_> {
    /// The lines of the table, split into as many parts below each other as the width requires.
    pub(super) fn layout(&self, width: usize, style: Style) -> Vec<String> {
        let room = width.saturating_sub(INDENT);
        let name_width = self.name_width(room);
        let lines = self.lines(name_width, room);
        let mut text = Vec::new();
        let mut columns: &[usize] = &(0..self.0.titles.len()).collect::<Vec<_>>();
        while !columns.is_empty() {
            if !text.is_empty() {
                text.push(String::new());
            }
            let (part, rest) = columns.split_at(self.fitting_count(columns, room.saturating_sub(name_width)));
            let titles = std::iter::once(None).chain(lines.iter().map(|line| line.title(style)));
            for (line, title) in self.part(part, &lines, name_width, style).lines().zip(titles) {
                text.push(format!("{}{}", " ".repeat(INDENT), title.unwrap_or(line)));
            }
            columns = rest;
        }
        text
    }

    /// The lines below the header. A wrapped name continues beside the rows below that have no name, and then on lines of its own.
    fn lines(&self, name_width: usize, room: usize) -> Vec<Line<'_>> {
        let mut lines: Vec<Line> = Vec::new();
        let mut rest: VecDeque<String> = VecDeque::new();
        for row in &self.0.rows {
            if !row.name.is_empty() {
                lines.extend(rest.drain(..).map(Line::continued_name));
                rest = match (row.is_title(), self.0.wraps_names) {
                    (true, _) => wrap(&row.name, room).into(),
                    (false, true) => wrap(&row.name, name_width).into(),
                    (false, false) => [shorten(&row.name, name_width)].into(),
                };
            }
            let name = rest.pop_front().unwrap_or_default();
            lines.push(Line { name, ink: row.ink, cells: Some(row), is_title: row.is_title() });
            if row.is_title() {
                let more = |name| Line { name, ink: row.ink, cells: None, is_title: true };
                lines.extend(rest.drain(..).map(more));
            }
        }
        lines.extend(rest.drain(..).map(Line::continued_name));
        lines
    }

    /// The width of the names: that of the longest, limited to the space beside the widest other column, or to half of the line if that is
    /// more. If names are wrapped, limited to the space beside all other columns, or to a quarter of the line if that is more.
    fn name_width(&self, room: usize) -> usize {
        let widest = self.rows().map(|row| row.name.width()).max().unwrap_or(0).max(self.0.names.len());
        let widths = || (0..self.0.titles.len()).map(|column| self.width(column) + GAP);
        let left = match self.0.wraps_names {
            true => room.saturating_sub(widths().sum()).max(room / 4),
            false => room.saturating_sub(widths().max().unwrap_or(GAP)).max(room / 2),
        };
        widest.min(left)
    }

    /// Rows except titles, whose names span all columns.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.0.rows.iter().filter(|row| !row.is_title())
    }

    /// The width of a column: that of its widest cell or of its title.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows().map(|row| row.cell(column).width());
        cells.max().unwrap_or(0).max(self.0.titles[column].width())
    }

    /// How many of the columns fit beside the names, at least one.
    fn fitting_count(&self, columns: &[usize], room: usize) -> usize {
        let mut used = 0;
        let fits = |column: &&usize| {
            used += self.width(**column) + GAP;
            used <= room
        };
        columns.iter().take_while(fits).count().max(1)
    }

    /// One part of the table: the names and some of the other columns.
    fn part(&self, columns: &[usize], lines: &[Line], name_width: usize, style: Style) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
        match style {
            Style::Plain => table.force_no_tty(),
            Style::Colour => table.enforce_styling(),
        };
        let title = |text: &str| style.cell(Ink::Dim, text);
        let titles = columns.iter().map(|column| align_right(title(&self.0.titles[*column])));
        table.set_header(std::iter::once(title(self.0.names)).chain(titles));
        for line in lines {
            let name = if line.is_title { "" } else { &line.name };
            let name = line.ink.map_or_else(|| Cell::new(name), |ink| style.cell(ink, name));
            let cell = |column: &usize| match line.cells {
                Some(row) if !row.is_title() => align_right(Cell::new(text_or_dash(row.cell(*column)))),
                _ => Cell::new(""),
            };
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

impl Line<'_> {
    /// A further line of a wrapped name.
    fn continued_name(name: String) -> Self {
        Self { name, ink: None, cells: None, is_title: false }
    }

    /// The text of the line if it is a title, which spans all columns.
    fn title(&self, style: Style) -> Option<String> {
        self.is_title.then(|| self.ink.map_or_else(|| self.name.clone(), |ink| style.paint(ink, &self.name)))
    }
}

/// Aligns a cell's text to the right.
fn align_right(cell: Cell) -> Cell {
    cell.set_alignment(CellAlignment::Right)
}

/// The text of a cell; a dash if it is empty.
fn text_or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
