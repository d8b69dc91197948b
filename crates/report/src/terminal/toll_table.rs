//! What one workload pays on each DMA path.

use super::grid::{Grid, Row};
use super::page::Page;
use super::toll_sheet::dma_path_ink;
use crate::platform::{Line, NO_UNTRANSLATED, platforms};
use crate::quantity;
use crate::style::Style;
use crate::toll_text::happened;
use crate::wrap::shorten;
use escape::terminal::plain;
use toll::{Event, TollSheet};

/// Events with a column.
const EVENTS: [Event; 2] = [Event::Hypercalls, Event::Invalidations];

/// Wider names are cut in the table, and stand in full below it.
const PRESET_WIDTH_MAX: usize = 28;

/// What an I/O of a workload pays on each DMA path, and how much that is over the untranslated DMA path of the same
/// machine and kernel. Sheets without the workload are left out.
pub fn toll_table(sheets: &[TollSheet], workload: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!("{} on each DMA path, per I/O", plain(workload)));
    let platforms = platforms(sheets, workload);
    if platforms.is_empty() {
        page.prose("No sheet has this workload.", 2);
    }
    for platform in platforms {
        page.heading(&platform.name);
        show(&mut page, &platform.lines);
    }
    page.done()
}

fn cells(line: &Line) -> Vec<String> {
    let instructions = line.instructions();
    let more = line.over.as_ref().map(|over| over.instructions);
    let mut cells = vec![
        shorten(&plain(&line.sheet.preset), PRESET_WIDTH_MAX),
        quantity::per_io(instructions),
        more.map(quantity::change).unwrap_or_default(),
        more.map(|more| quantity::percent(instructions - more, instructions)).unwrap_or_default(),
    ];
    cells.extend(EVENTS.map(|event| happened(line.toll, event) + &more_events(line, event)));
    cells
}

/// Events over the base, in brackets, if they were counted here.
fn more_events(line: &Line, event: Event) -> String {
    match (line.toll.events.contains_key(&event) && line.over.is_some(), line.more(event)) {
        (false, _) => String::new(),
        (true, None) => " (?)".to_owned(),
        (true, Some(more)) => format!(" ({})", quantity::change(more)),
    }
}

fn show(page: &mut Page, lines: &[Line]) {
    let row = |line: &Line| Row {
        name: line.sheet.dma_path.to_string(),
        ink: Some(dma_path_ink(line.sheet)),
        cells: cells(line),
    };
    let titles = ["preset", "instructions", "more", "in percent", "hypercalls", "invalidations"];
    let titles = titles.map(str::to_owned).to_vec();
    Grid { names: "DMA path", titles, rows: lines.iter().map(row).collect() }.show(page);
    match lines.iter().find_map(|line| line.base) {
        Some((base, _)) => {
            let base = plain(&base.preset);
            let legend = format!(
                "`more`, and what stands in brackets, is over {base}. ~ is the mean of all windows, where it is not \
                 the median."
            );
            page.prose(&legend, 2);
        }
        None => page.prose(NO_UNTRANSLATED, 2),
    }
    for line in lines {
        page.item("- ", &plain(&format!("{}: {}", line.sheet.preset, line.toll.evidence)), 2);
    }
}
