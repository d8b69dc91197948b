//! The page of one toll sheet.

use super::words::{self, per_io};
use crate::page::quantity;
use crate::page::table::{Row, Table};
use crate::page::{Lead, Page};
use escape::terminal::plain;
use toll::{Event, Stage, Toll, TollSheet};

/// Events that have a column wherever they were counted. Other events have one only if any occurred.
const ALWAYS: [Event; 4] = [Event::Hypercalls, Event::Invalidations, Event::Doorbells, Event::Interrupts];

/// The machine and kernel that were measured, and the cost of an I/O of each workload: instructions, stages of the kernel, and events.
pub fn toll_sheet(sheet: &TollSheet) -> Page {
    let mut page = Page::titled(format!("{} · {}", plain(&sheet.preset), sheet.dma_path));
    page.facts(words::facts(sheet), 10);
    if sheet.tolls.is_empty() {
        page.prose("It has no workload.", 2);
        return page;
    }
    page.heading("Per I/O: instructions, where in the kernel they went, and events");
    page.table(table(sheet));
    if has_means(sheet) {
        page.remark(
            "Counts are those of the median window; ~ is the mean of all windows, where it is another.",
        );
    }
    page.heading("Workloads");
    for toll in &sheet.tolls {
        page.item(Lead::Name(toll.workload.clone()), words::workload(toll));
    }
    page
}

/// A column's title, and its cell for each workload.
type Column<'s> = (String, Box<dyn Fn(&Toll) -> String + 's>);

/// All counts per I/O, a row for each workload.
fn table(sheet: &TollSheet) -> Table {
    let columns: Vec<Column> = instructions().into_iter().chain(stages(sheet)).chain(events(sheet)).collect();
    let row = |toll: &Toll| Row {
        name: plain(&toll.workload),
        ink: None,
        cells: columns.iter().map(|(_, cell)| cell(toll)).collect(),
    };
    Table {
        names: "workload",
        wraps_names: false,
        rows: sheet.tolls.iter().map(row).collect(),
        titles: columns.iter().map(|(title, _)| title.clone()).collect(),
    }
}

/// Columns for instructions per I/O.
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

/// A column for each stage of the kernel in which any workload executes instructions.
fn stages(sheet: &TollSheet) -> impl Iterator<Item = Column<'_>> {
    let count = |toll: &Toll, stage: Stage| toll.stages.get(&stage).copied().unwrap_or(0);
    let is_used =
        move |stage: &Stage| *stage != Stage::User && sheet.tolls.iter().any(|toll| count(toll, *stage) > 0);
    Stage::ALL.into_iter().filter(is_used).map(move |stage| -> Column {
        (stage.to_string(), Box::new(move |toll| quantity::per_io(toll.per_io(count(toll, stage)))))
    })
}

/// A column for each event that occurred, and for those that always have one.
fn events(sheet: &TollSheet) -> impl Iterator<Item = Column<'_>> {
    let has_column = |event: &Event| {
        let total = |toll: &Toll| toll.events.get(event).map(|tally| tally.all.total);
        sheet.tolls.iter().filter_map(total).any(|total| total > 0 || ALWAYS.contains(event))
    };
    let shown = Event::ALL.into_iter().filter(has_column);
    shown.map(|event| -> Column { (event.to_string(), Box::new(move |toll| per_io(toll, event))) })
}

/// Whether the mean of any event differs from its median.
fn has_means(sheet: &TollSheet) -> bool {
    let differs = |toll: &Toll| {
        let mut tallies = toll.events.values();
        tallies.any(|tally| toll.per_io(tally.all.median) != toll.mean_per_io(tally.all.total))
    };
    sheet.tolls.iter().any(differs)
}
