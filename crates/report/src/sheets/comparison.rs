//! The page of one workload on several toll sheets: what an I/O costs on each DMA path.

use super::platform::{NO_UNTRANSLATED, SheetLine, platforms};
use super::words::per_io;
use crate::page::Page;
use crate::page::cost::Cost;
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::shorten::shorten;
use crate::page::table::{Row, Table};
use escape::terminal::plain;
use toll::{Event, TollSheet};

/// Events with a column.
const EVENTS: [Event; 2] = [Event::Hypercalls, Event::Invalidations];

/// Longer names of presets are cut in the table; they stand in full below it.
const PRESET_WIDTH_MAX: usize = 28;

/// What an I/O of a workload costs on each DMA path, and how much more that is than on the untranslated DMA path of the
/// same machine and kernel. Sheets without the workload are left out.
pub fn toll_table(sheets: &[TollSheet], workload: &str) -> Page {
    let mut page = Page::titled(format!("{} on each DMA path, per I/O", plain(workload)));
    let platforms = platforms(sheets, workload);
    if platforms.is_empty() {
        page.prose("No sheet has this workload.", 2);
    }
    for platform in platforms {
        page.heading(platform.name);
        add_platform(&mut page, &platform.lines);
    }
    page
}

/// Adds the sheets of one machine and kernel, and the evidence of each.
fn add_platform(page: &mut Page, lines: &[SheetLine]) {
    let row = |line: &SheetLine| Row {
        name: line.sheet.dma_path.to_string(),
        ink: Some(Ink::DmaPath(Cost::of(line.sheet.dma_path))),
        cells: cells(line),
    };
    let titles = ["preset", "instructions", "more", "in percent", "hypercalls", "invalidations"];
    let titles = titles.map(str::to_owned).to_vec();
    page.table(Table {
        names: "DMA path",
        wraps_names: false,
        titles,
        rows: lines.iter().map(row).collect(),
    });
    match lines.iter().find_map(|line| line.base) {
        Some((base, _)) => {
            let base = plain(&base.preset);
            page.remark(format!(
                "`more`, and what stands in brackets, is over {base}. ~ is the mean of all windows, where it is not \
                 the median."
            ));
        }
        None => page.remark(NO_UNTRANSLATED),
    }
    for line in lines {
        page.bullet(format!("{}: {}", line.sheet.preset, line.toll.evidence));
    }
}

/// The cells of a sheet: preset, instructions, and what the DMA path adds.
fn cells(line: &SheetLine) -> Vec<String> {
    let instructions = line.instructions();
    let more = line.over.as_ref().map(|over| over.instructions);
    let mut cells = vec![
        shorten(&plain(&line.sheet.preset), PRESET_WIDTH_MAX),
        quantity::per_io(instructions),
        more.map(quantity::change).unwrap_or_default(),
        more.map(|more| quantity::percent(instructions - more, instructions)).unwrap_or_default(),
    ];
    cells.extend(EVENTS.map(|event| per_io(line.toll, event) + &more_events(line, event)));
    cells
}

/// In brackets, how many more events there are than on the base; empty if they were not counted here.
fn more_events(line: &SheetLine, event: Event) -> String {
    match (line.toll.events.contains_key(&event) && line.over.is_some(), line.more_events(event)) {
        (false, _) => String::new(),
        (true, None) => " (?)".to_owned(),
        (true, Some(more)) => format!(" ({})", quantity::change(more)),
    }
}
