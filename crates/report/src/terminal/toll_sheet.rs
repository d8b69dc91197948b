//! A toll sheet on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::cost::Cost;
use crate::fact::Fact;
use crate::plain::plain;
use crate::quantity;
use crate::style::{Ink, Style};
use crate::wrap::shorten;
use toll::{Event, Stage, Toll, TollSheet};
use unicode_width::UnicodeWidthStr;

/// Events that have a column wherever they were counted; the others have one where they happened.
const ALWAYS: [Event; 4] = [Event::Hypercalls, Event::Invalidations, Event::Doorbells, Event::Interrupts];

/// A toll sheet: what was measured, and what an I/O of each workload pays.
///
/// Columns that `width` has no room for follow below, under the names of the workloads again.
pub fn toll_sheet(sheet: &TollSheet, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!("{} · {}", plain(&sheet.preset), sheet.road));
    for fact in facts(sheet) {
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

fn facts(sheet: &TollSheet) -> Vec<Fact> {
    let (machine, kernel) = (&sheet.machine, &sheet.kernel);
    let cpus = quantity::count(machine.vcpus as usize, "CPU");
    let memory = quantity::bytes(machine.memory_mib.saturating_mul(1 << 20));
    let package = kernel.package.as_ref().map(|package| format!(" ({package})")).unwrap_or_default();
    let times = quantity::count(sheet.repeats as usize, "time");
    vec![
        Fact::known("pays", sheet.road.toll()),
        Fact::known(
            "machine",
            &format!("{} {}, {cpus}, {memory}, QEMU {}", machine.arch, machine.cpu, machine.qemu_version),
        ),
        Fact::known("kernel", &format!("Linux {}{package}", kernel.release)),
        Fact::known("options", &kernel.command_line),
        Fact::known("measured", &format!("{}, {times}", sheet.measured_on)),
    ]
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

/// How often something happened per I/O, by the median, and by the mean where that says more. Nothing if
/// it was not counted.
pub(super) fn happened(toll: &Toll, event: Event) -> String {
    let Some(tally) = toll.events.get(&event) else { return String::new() };
    let (median, mean) = (toll.per_io(tally.all.median), toll.mean_per_io(tally.all.total));
    let typical = quantity::per_io(median);
    if median == mean { typical } else { format!("{typical} ~{}", quantity::per_io(mean)) }
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
    let words = format!(
        "{}; driver {}, {} per I/O, {} per window; {} of {} at the median; {}",
        toll.what,
        toll.driver,
        quantity::bytes(toll.bytes_per_io),
        quantity::count(toll.ios_per_window.get() as usize, "I/O"),
        quantity::grouped(u64::from(toll.instructions.at_median)),
        quantity::count(toll.windows.get() as usize, "window"),
        toll.evidence,
    );
    page.led(&lead, name.width() + 2, &plain(&words), 2);
}

/// The ink of a sheet's road.
pub(super) fn road_ink(sheet: &TollSheet) -> Ink {
    Ink::Road(Cost::of(sheet.road))
}
