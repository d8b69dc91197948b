//! The table of adapters, and the list that stands for it on narrow terminals.

use super::page::Page;
use crate::batch::Batch;
use crate::cost::Cost;
use crate::quantity;
use crate::style::{Ink, Style};
use crate::wrap::shorten;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, TableStyle, Width};
use unicode_width::UnicodeWidthStr;

/// Below this many columns a table's words would be cut to pieces.
const TABLE_WIDTH_MIN: usize = 76;
/// With less room for names than this, they take a line of their own.
const NAME_WIDTH_MIN: usize = 18;
/// With less room for names than this, links break before their `of`.
const NAME_WIDTH_GOOD: usize = 30;
/// A link that is broken: `16 GT/s x16` above `of x16`.
const LINK_WIDTH_BROKEN: usize = 11;
/// An address, and a range of them broken after its dots.
const ADDRESS_WIDTH_BROKEN: usize = 15;

/// The columns, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Address,
    Name,
    /// Address, driver and name one above the other.
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

    fn is_number(self) -> bool {
        matches!(self, Self::Mask | Self::Group | Self::Numa | Self::Findings)
    }

    /// The column that gets what the others leave.
    fn is_stretched(self) -> bool {
        matches!(self, Self::Name | Self::Adapter)
    }

    /// What stands in it; empty where it is not told.
    fn text(self, batch: &Batch) -> String {
        let row = &batch.row;
        match self {
            Self::Address => batch.addresses.clone(),
            Self::Name => batch.called.clone(),
            Self::Adapter => format!("{} {}\n{}", batch.addresses, row.driver, batch.called),
            Self::Driver => row.driver.clone(),
            Self::DmaPath => row.dma_path.word().to_owned(),
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
type Sized = (Column, usize);

pub(super) fn show(page: &mut Page, batches: &[Batch]) {
    if page.width < TABLE_WIDTH_MIN {
        return list(page, batches);
    }
    let columns = layout(&Column::WIDE, batches, page.width, NAME_WIDTH_MIN)
        .or_else(|| layout(&Column::NARROW, batches, page.width, NAME_WIDTH_MIN));
    match columns {
        Some(columns) => {
            for line in table(batches, &columns, page.style).lines() {
                page.line(&line);
            }
        }
        None => list(page, batches),
    }
}

/// Widths of the columns that say anything; `None` if too little is left for names.
fn layout(columns: &[Column], batches: &[Batch], width: usize, name_min: usize) -> Option<Vec<Sized>> {
    let natural = |column: Column| {
        let texts = batches.iter().map(|batch| column.text(batch).width());
        texts.max().filter(|widest| *widest > 0).map(|widest| (column, widest.max(column.title().len())))
    };
    let mut sized: Vec<Sized> = columns.iter().filter_map(|column| natural(*column)).collect();
    let gaps = GAP * sized.len().saturating_sub(1);
    let left = |sized: &[Sized]| {
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

fn widest_line(column: Column, batches: &[Batch]) -> usize {
    let lines = |batch: &Batch| column.text(batch).lines().map(UnicodeWidthStr::width).max();
    batches.iter().filter_map(lines).max().unwrap_or(0)
}

/// Blanks between columns.
const GAP: usize = 2;

fn table(batches: &[Batch], columns: &[Sized], style: Style) -> Table {
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

fn cell((column, width): Sized, batch: &Batch, style: Style) -> Cell {
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

fn list(page: &mut Page, batches: &[Batch]) {
    for batch in batches {
        let row = &batch.row;
        let dma_path = page.style.paint(Ink::DmaPath(Cost::of(row.dma_path)), row.dma_path.word());
        page.led(&format!("{dma_path}  "), row.dma_path.word().len() + 2, &batch.addresses, 2);
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
        page.prose(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "), 6);
    }
}
