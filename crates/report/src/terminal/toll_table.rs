//! What one workload pays on each road.

use super::grid::{Grid, Row};
use super::page::Page;
use super::toll_sheet::{happened, road_ink};
use crate::plain::plain;
use crate::quantity;
use crate::style::Style;
use crate::wrap::shorten;
use std::collections::BTreeMap;
use toll::{Difference, Event, Road, Toll, TollSheet, toll_over, untranslated};

/// Events with a column.
const EVENTS: [Event; 2] = [Event::Hypercalls, Event::Invalidations];

/// Wider names are cut in the table, and stand in full below it.
const PRESET_WIDTH_MAX: usize = 28;

/// What an I/O of a workload pays on each road, and how much that is over the untranslated road of the same
/// machine and kernel. Sheets without the workload are left out.
pub fn toll_table(sheets: &[TollSheet], workload: &str, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!("{} on each road, per I/O", plain(workload)));
    let mut platforms: BTreeMap<(&str, &str, &str), Vec<Line>> = BTreeMap::new();
    for sheet in sheets {
        let Some(toll) = sheet.toll(workload) else { continue };
        let platform =
            (sheet.machine.arch.as_str(), sheet.kernel.release.as_str(), sheet.machine.cpu.as_str());
        platforms.entry(platform).or_default().push(Line::new(sheet, toll, sheets));
    }
    if platforms.is_empty() {
        page.prose("No sheet has this workload.", 2);
    }
    for ((arch, release, cpu), mut lines) in platforms {
        let rank = |road: Road| Road::ALL.iter().position(|known| *known == road);
        lines.sort_by_key(|line| (rank(line.sheet.road), &line.sheet.preset));
        page.heading(&plain(&format!("{arch} {cpu}, Linux {release}")));
        platform(&mut page, &lines);
    }
    page.done()
}

/// A sheet's toll, with the untranslated one to measure it against.
struct Line<'s> {
    sheet: &'s TollSheet,
    toll: &'s Toll,
    base: Option<(&'s TollSheet, &'s Toll)>,
}

impl<'s> Line<'s> {
    fn new(sheet: &'s TollSheet, toll: &'s Toll, sheets: &'s [TollSheet]) -> Self {
        let base = untranslated(sheet, sheets);
        Self { sheet, toll, base: base.and_then(|base| Some((base, base.toll(&toll.workload)?))) }
    }

    /// What it has over the base; nothing for the base itself.
    fn over(&self) -> Option<Difference> {
        let (base, toll) = self.base?;
        (base != self.sheet).then(|| toll_over(self.toll, toll))
    }

    fn cells(&self) -> Vec<String> {
        let over = self.over();
        let instructions = self.toll.per_io(self.toll.instructions.median);
        let more = over.as_ref().map(|over| over.instructions);
        let mut cells = vec![
            shorten(&plain(&self.sheet.preset), PRESET_WIDTH_MAX),
            quantity::per_io(instructions),
            more.map(quantity::change).unwrap_or_default(),
            more.map(|more| quantity::percent(instructions - more, instructions)).unwrap_or_default(),
        ];
        for event in EVENTS {
            let more = over.as_ref().map(|over| self.more(over, event)).unwrap_or_default();
            cells.push(happened(self.toll, event) + &more);
        }
        cells
    }

    /// Events over the base, in brackets, if they were counted here.
    fn more(&self, over: &Difference, event: Event) -> String {
        let counted = |toll: &Toll| toll.events.contains_key(&event);
        match (counted(self.toll), self.base.is_some_and(|(_, base)| counted(base))) {
            (false, _) => String::new(),
            (true, false) => " (?)".to_owned(),
            (true, true) => {
                let more = over.events.get(&event).map_or(0.0, |more| more.median);
                format!(" ({})", quantity::change(more))
            }
        }
    }
}

fn platform(page: &mut Page, lines: &[Line]) {
    let row = |line: &Line| Row {
        name: line.sheet.road.to_string(),
        ink: Some(road_ink(line.sheet)),
        cells: line.cells(),
    };
    let titles = ["preset", "instructions", "more", "in percent", "hypercalls", "invalidations"];
    let titles = titles.map(str::to_owned).to_vec();
    Grid { names: "road", titles, rows: lines.iter().map(row).collect() }.show(page);
    match lines.iter().find_map(|line| line.base) {
        Some((base, _)) => {
            let base = plain(&base.preset);
            let legend = format!(
                "`more`, and what stands in brackets, is over {base}. ~ is the mean of all windows, where it is not \
                 the median."
            );
            page.prose(&legend, 2);
        }
        None => page.prose(
            "No sheet of an untranslated road (no-iommu, identity, direct-window) of this machine and kernel has this \
             workload: what translation costs can't be told.",
            2,
        ),
    }
    for line in lines {
        page.item("- ", &plain(&format!("{}: {}", line.sheet.preset, line.toll.evidence)), 2);
    }
}
