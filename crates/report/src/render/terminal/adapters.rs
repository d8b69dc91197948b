//! The table of adapters, and the list that replaces it on narrow terminals.

use super::screen::Screen;
use crate::inspection::batch::Batch;
use crate::page::cost::Cost;
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::shorten::shorten;
use crate::render::terminal::style::Style;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, TableStyle, Width};
use unicode_width::UnicodeWidthStr;

/// Below this many columns a table's words would be cut to pieces.
const TABLE_WIDTH_MIN: usize = 76;
/// With fewer columns for names than this, names are on lines of their own.
const NAME_WIDTH_MIN: usize = 18;
/// With fewer columns for names than this, links break before their `of`.
const NAME_WIDTH_GOOD: usize = 30;
/// Columns of a link that is broken: `16 GT/s x16` above `of x16`.
const LINK_WIDTH_BROKEN: usize = 11;
/// Columns of an address, or of a range of addresses that is broken after its dots.
const ADDRESS_WIDTH_BROKEN: usize = 15;

/// The columns, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Address,
    Name,
    /// Address and driver, with the name below.
    Adapter,
    Driver,
    DmaPath,
    Mask,
    Group,
    Numa,
    Link,
    Findings,
}

impl Column {
    const WIDE: [Self; 9] = [
        Self::Address,
        Self::Name,
        Self::Driver,
        Self::DmaPath,
        Self::Mask,
        Self::Group,
        Self::Numa,
        Self::Link,
        Self::Findings,
    ];
    const NARROW: [Self; 7] =
        [Self::Adapter, Self::DmaPath, Self::Mask, Self::Group, Self::Numa, Self::Link, Self::Findings];

    /// The column's title.
    fn title(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Name => "name",
            Self::Adapter => "adapter",
            Self::Driver => "driver",
            Self::DmaPath => "DMA path",
            Self::Mask => "mask",
            Self::Group => "group",
            Self::Numa => "numa",
            Self::Link => "link",
            Self::Findings => "finds",
        }
    }

    /// Whether its texts are numbers, which stand at the right.
    fn is_number(self) -> bool {
        matches!(self, Self::Mask | Self::Group | Self::Numa | Self::Findings)
    }

    /// Whether the column gets the width that the others leave.
    fn is_stretched(self) -> bool {
        matches!(self, Self::Name | Self::Adapter)
    }

    /// The text of its cell; empty if it is not known.
    fn text(self, batch: &Batch) -> String {
        let row = &batch.row;
        match self {
            Self::Address => batch.addresses.clone(),
            Self::Name => batch.called.clone(),
            Self::Adapter => format!("{} {}\n{}", batch.addresses, row.driver, batch.called),
            Self::Driver => row.driver.clone(),
            Self::DmaPath => row.path_word(),
            Self::Mask => row.mask.clone(),
            Self::Group => row.group.clone(),
            Self::Numa => row.numa.clone(),
            Self::Link => row.link.clone(),
            Self::Findings if row.findings.count == 0 => String::new(),
            Self::Findings => quantity::grouped(row.findings.count as u64),
        }
    }
}

/// A column with its width, blanks after it not counted.
type SizedColumn = (Column, usize);

/// Writes the adapters: as a table, or as a list where the terminal is too narrow for one.
pub(super) fn show(screen: &mut Screen, batches: &[Batch]) {
    if screen.width < TABLE_WIDTH_MIN {
        return show_list(screen, batches);
    }
    let columns = layout(&Column::WIDE, batches, screen.width, NAME_WIDTH_MIN)
        .or_else(|| layout(&Column::NARROW, batches, screen.width, NAME_WIDTH_MIN));
    match columns {
        Some(columns) => {
            for line in table(batches, &columns, screen.style).lines() {
                screen.line(&line);
            }
        }
        None => show_list(screen, batches),
    }
}

/// Widths of the columns that are not empty; `None` if too little is left for names.
fn layout(columns: &[Column], batches: &[Batch], width: usize, name_min: usize) -> Option<Vec<SizedColumn>> {
    let natural = |column: Column| {
        let texts = batches.iter().map(|batch| column.text(batch).width());
        texts.max().filter(|widest| *widest > 0).map(|widest| (column, widest.max(column.title().len())))
    };
    let mut sized: Vec<SizedColumn> = columns.iter().filter_map(|column| natural(*column)).collect();
    let gaps = GAP * sized.len().saturating_sub(1);
    let left = |sized: &[SizedColumn]| {
        let taken: usize =
            sized.iter().filter(|(column, _)| !column.is_stretched()).map(|(_, width)| width).sum();
        width.saturating_sub(taken + gaps)
    };
    for (column, broken) in [(Column::Link, LINK_WIDTH_BROKEN), (Column::Address, ADDRESS_WIDTH_BROKEN)] {
        if left(&sized) < NAME_WIDTH_GOOD
            && let Some((_, width)) = sized.iter_mut().find(|(known, _)| *known == column)
        {
            *width = broken.min(*width);
        }
    }
    let room = left(&sized);
    for (column, width) in &mut sized {
        if column.is_stretched() {
            *width = room.min(widest_line(*column, batches)).max(column.title().len());
        }
    }
    (room >= name_min).then_some(sized)
}

/// Columns of the widest line in a column's cells, each of which may have several lines.
fn widest_line(column: Column, batches: &[Batch]) -> usize {
    let lines = |batch: &Batch| column.text(batch).lines().map(UnicodeWidthStr::width).max();
    batches.iter().filter_map(lines).max().unwrap_or(0)
}

/// Blanks between columns.
const GAP: usize = 2;

/// The table of batches with columns of these widths.
fn table(batches: &[Batch], columns: &[SizedColumn], style: Style) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic);
    match style {
        Style::Plain => table.force_no_tty(),
        Style::Colour => table.enforce_styling(),
    };
    table.set_header(columns.iter().map(|(column, _)| style.cell(Ink::Dim, column.title())));
    for batch in batches {
        table.add_row(columns.iter().map(|sized| cell(*sized, batch, style)));
    }
    let last = columns.len().saturating_sub(1);
    for (index, (column, (_, width))) in table.column_iter_mut().zip(columns).enumerate() {
        let gap = if index == last { 0 } else { GAP };
        let whole = u16::try_from(width + gap).unwrap_or(u16::MAX);
        column.set_padding((0, u16::try_from(gap).unwrap_or(0)));
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(whole)));
    }
    table
}

/// A cell: cut if it is the name of a single adapter, painted if it is a DMA path or findings.
fn cell((column, width): SizedColumn, batch: &Batch, style: Style) -> Cell {
    let text = column.text(batch);
    let text = if text.is_empty() { "-".to_owned() } else { text };
    // Names are cut, not wrapped: in full they stand in the view of the one adapter.
    let text = match column.is_stretched() && batch.count == 1 {
        true => text.lines().map(|line| shorten(line, width)).collect::<Vec<_>>().join("\n"),
        false => text,
    };
    let cell = match (column, batch.row.findings.worst) {
        (Column::DmaPath, _) => style.cell(Ink::DmaPath(Cost::of(batch.row.dma_path)), &text),
        (Column::Findings, Some(worst)) => style.cell(Ink::Severity(worst), &text),
        _ => Cell::new(text),
    };
    match column.is_number() {
        true => cell.set_alignment(CellAlignment::Right),
        false => cell,
    }
}

/// Writes each batch as a short paragraph.
fn show_list(screen: &mut Screen, batches: &[Batch]) {
    for batch in batches {
        let row = &batch.row;
        let word = row.path_word();
        let dma_path = screen.style.paint(Ink::DmaPath(Cost::of(row.dma_path)), &word);
        screen.hanging(&format!("{dma_path}  "), word.len() + 2, &batch.addresses, 2);
        let named = |name: &str, text: &str| (!text.is_empty()).then(|| format!("{name} {text}"));
        let findings = row.findings.count;
        let parts = [
            Some(batch.called.clone()),
            named("driver", &row.driver),
            named("mask", &row.mask),
            named("group", &row.group),
            named("NUMA", &row.numa),
            named("link", &row.link),
            (findings > 0).then(|| quantity::count(findings, "finding")),
        ];
        screen.prose(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "), 6);
    }
}
