//! A toll sheet on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::cost::Cost;
use crate::quantity;
use crate::style::{Ink, Style};
use crate::toll_text::{self, happened};
use crate::wrap::shorten;
use escape::terminal::plain;
use toll::{Event, Stage, Toll, TollSheet};
use unicode_width::UnicodeWidthStr;

/// Events that have a column wherever they were counted; the others have one where they happened.
const ALWAYS: [Event; 4] = [Event::Hypercalls, Event::Invalidations, Event::Doorbells, Event::Interrupts];

/// A toll sheet: what was measured, and what an I/O of each workload pays.
///
/// Columns that `width` has no room for follow below, under the names of the workloads again.
pub fn toll_sheet(sheet: &TollSheet, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!("{} · {}", plain(&sheet.preset), sheet.dma_path));
    for fact in toll_text::facts(sheet) {
        page.fact(&fact, 10);
    }
    if sheet.tolls.is_empty() {
        page.prose("It has no workload.", 2);
        return page.done();
    }
    page.heading("Per I/O: instructions, where in the kernel they went, and events");
    grid(sheet).show(&mut page);
    if has_means(sheet) {
        page.prose(
            "Counts are those of the median window; ~ is the mean of all windows, where it is another.",
            2,
        );
    }
    page.heading("Workloads");
    for toll in &sheet.tolls {
        workload(&mut page, toll);
    }
    page.done()
}

type Column<'s> = (String, Box<dyn Fn(&Toll) -> String + 's>);

fn grid(sheet: &TollSheet) -> Grid {
    let columns: Vec<Column> = instructions().into_iter().chain(stages(sheet)).chain(events(sheet)).collect();
    let row = |toll: &Toll| Row {
        name: plain(&toll.workload),
        ink: None,
        cells: columns.iter().map(|(_, cell)| cell(toll)).collect(),
    };
    Grid {
        names: "workload",
        rows: sheet.tolls.iter().map(row).collect(),
        titles: columns.iter().map(|(title, _)| title.clone()).collect(),
    }
}

fn instructions<'s>() -> [Column<'s>; 5] {
    let column = |title: &str, count: fn(&Toll) -> u64| -> Column {
        (title.to_owned(), Box::new(move |toll: &Toll| quantity::per_io(toll.per_io(count(toll)))))
    };
    [
        column("instructions", |toll| toll.instructions.median),
        column("min", |toll| toll.instructions.min),
        column("p99", |toll| toll.instructions.p99),
        column("user", |toll| toll.user),
        column("kernel", |toll| toll.kernel),
    ]
}

/// Stages of the kernel that any workload passes.
fn stages(sheet: &TollSheet) -> impl Iterator<Item = Column<'_>> {
    let count = |toll: &Toll, stage: Stage| toll.stages.get(&stage).copied().unwrap_or(0);
    let passed =
        move |stage: &Stage| *stage != Stage::User && sheet.tolls.iter().any(|toll| count(toll, *stage) > 0);
    Stage::ALL.into_iter().filter(passed).map(move |stage| -> Column {
        (stage.to_string(), Box::new(move |toll| quantity::per_io(toll.per_io(count(toll, stage)))))
    })
}

fn events(sheet: &TollSheet) -> impl Iterator<Item = Column<'_>> {
    let shown = |event: &Event| {
        let seen = |toll: &Toll| toll.events.get(event).map(|tally| tally.all.total);
        sheet.tolls.iter().filter_map(seen).any(|total| total > 0 || ALWAYS.contains(event))
    };
    let columns = Event::ALL.into_iter().filter(shown);
    columns.map(|event| -> Column { (event.to_string(), Box::new(move |toll| happened(toll, event))) })
}

fn has_means(sheet: &TollSheet) -> bool {
    let differs = |toll: &Toll| {
        let mut tallies = toll.events.values();
        tallies.any(|tally| toll.per_io(tally.all.median) != toll.mean_per_io(tally.all.total))
    };
    sheet.tolls.iter().any(differs)
}

fn workload(page: &mut Page, toll: &Toll) {
    let name = shorten(&plain(&toll.workload), page.width / 3);
    let lead = format!("{}: ", page.style.paint(Ink::Strong, &name));
    let words = toll_text::workload(toll);
    page.led(&lead, name.width() + 2, &plain(&words), 2);
}

/// The ink of a sheet's DMA path.
pub(super) fn dma_path_ink(sheet: &TollSheet) -> Ink {
    Ink::DmaPath(Cost::of(sheet.dma_path))
}
