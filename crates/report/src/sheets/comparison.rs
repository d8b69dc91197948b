//! The page of several toll sheets: what an I/O of each workload costs on each DMA path.

use super::control::Control;
use super::platform::{SheetLine, platforms, prices_of};
use super::words::price_words;
use crate::page::Page;
use crate::page::cost::Cost;
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::shorten::shorten;
use crate::page::table::{Row, Table};
use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::{Event, PriceList, Toll, TollSheet};

/// Events with a column, where any happened. A string instruction counts once, however many bytes it copies; its repetitions
/// are events.
const EVENTS: [Event; 3] = [Event::Hypercalls, Event::Invalidations, Event::StringIterations];

/// Longer names of presets are cut in the table.
const PRESET_WIDTH_MAX: usize = 24;

/// What an I/O of each workload costs on each DMA path, and how much more that is than on the base of each sheet: a table for
/// each machine and kernel. The difference is priced by the list of the machine's architecture, if there is one.
pub fn toll_comparison(sheets: &[TollSheet], prices: &[PriceList]) -> Page {
    let number = quantity::count(sheets.len(), "toll sheet");
    let mut page = Page::titled(format!("{number}: what each DMA path adds to an I/O"));
    let mut by_machine: BTreeMap<String, Vec<Workload<'_>>> = BTreeMap::new();
    for name in workloads(sheets) {
        for platform in platforms(sheets, name) {
            by_machine.entry(platform.name).or_default().push(Workload { name, lines: platform.lines });
        }
    }
    for (machine, workloads) in &by_machine {
        page.heading(machine.clone());
        MachineTable::new(workloads, prices).add(&mut page, workloads);
    }
    page.blank();
    page.prose(
        "Beside each workload: the instructions of one I/O on the base, of the median window. Below it, the instructions on each \
         DMA path, and what they are over the base, by the mean of each boot: `DMA stages` map, unmap, write entries, invalidate \
         and bounce; `elsewhere` are all other stages, with side effects and chance. ± is half of the 95 % interval over boots, \
         and ? marks a sign that is uncertain. Events are over the base too, by their mean. `iterations` are those of string \
         instructions beyond the first, mostly a byte or eight copied by each; an instruction is counted once for all of them. \
         One sheet alone shows its stages, its events and the evidence of its figures.",
        0,
    );
    page
}

/// A workload on all sheets of a machine.
struct Workload<'s> {
    name: &'s str,
    lines: Vec<SheetLine<'s>>,
}

impl Workload<'_> {
    /// The lines to show: all but the base, and the control where it adds nothing, which has a remark of its own.
    fn shown(&self) -> impl Iterator<Item = &SheetLine<'_>> {
        let says_nothing = |line: &&SheetLine<'_>| match &line.over {
            None => line.base.is_some(),
            Some(over) if over.is_nothing() => true,
            Some(_) => line.sheet.dma_path.is_untranslated() && !line.adds_visibly_for_certain(),
        };
        self.lines.iter().filter(move |line| !says_nothing(line))
    }

    /// The workload and its instructions on the bases, as a title.
    fn title(&self) -> String {
        let bases = self.lines.iter().filter(|line| line.over.is_none() && line.base.is_some());
        let words =
            |line: &SheetLine<'_>| format!("{} on {}", whole(line.instructions()), plain(&line.sheet.preset));
        let bases: Vec<String> = bases.map(words).collect();
        let name = plain(self.name);
        if bases.is_empty() { name } else { format!("{name}: {}", bases.join(", ")) }
    }
}

/// Names of all workloads, each once, in the order of their first appearance.
fn workloads(sheets: &[TollSheet]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for toll in sheets.iter().flat_map(|sheet| &sheet.tolls) {
        if !names.contains(&toll.workload.as_str()) {
            names.push(&toll.workload);
        }
    }
    names
}

/// The columns of one machine's table.
struct MachineTable<'p> {
    events: Vec<Event>,
    /// The prices of its architecture.
    prices: Option<&'p PriceList>,
}

impl<'p> MachineTable<'p> {
    fn new(workloads: &[Workload<'_>], prices: &'p [PriceList]) -> Self {
        let lines = || workloads.iter().flat_map(|workload| &workload.lines);
        let happened = |event: &Event| {
            lines().any(|line| line.toll.events.get(event).is_some_and(|tally| tally.all.total > 0))
        };
        Self {
            events: EVENTS.into_iter().filter(happened).collect(),
            prices: lines().next().and_then(|line| prices_of(line.sheet, prices)),
        }
    }

    /// Adds the table, and below it the sheets that it is made of.
    fn add(&self, page: &mut Page, workloads: &[Workload<'_>]) {
        let mut rows = Vec::new();
        let mut unchanged = Vec::new();
        for workload in workloads {
            let shown: Vec<Row> = workload.shown().map(|line| self.row(line)).collect();
            if shown.is_empty() {
                unchanged.push(workload.title());
            } else {
                rows.push(Row::title(workload.title()));
                rows.extend(shown);
            }
        }
        let fixed = ["instructions", "DMA stages", "in percent", "elsewhere"].map(str::to_owned);
        let events = self.events.iter().map(|event| match event {
            Event::StringIterations => "iterations".to_owned(),
            event => event.to_string(),
        });
        let priced = self.prices.iter().map(|_| "priced".to_owned());
        let titles = fixed.into_iter().chain(events).chain(priced).collect();
        page.table(Table { names: "preset", wraps_names: false, titles, rows });
        if !unchanged.is_empty() {
            page.remark(format!(
                "no DMA path adds anything, or there is one alone: {}",
                unchanged.join("; ")
            ));
        }
        let lines = || workloads.iter().flat_map(|workload| &workload.lines);
        let mut sheets: Vec<&TollSheet> = lines().map(|line| line.sheet).collect();
        sheets.sort_by_key(|sheet| &sheet.preset);
        sheets.dedup_by_key(|sheet| &sheet.preset);
        for sheet in &sheets {
            page.bullet(sheet_words(sheet, &sheets));
        }
        if let Some(control) = Control::of(lines()) {
            page.remark(format!("control: {}", control.words()));
        }
        if let Some(list) = self.prices {
            page.remark(price_words("over the base", list, &self.events));
        }
    }

    fn row(&self, line: &SheetLine<'_>) -> Row {
        let over = line.over.as_ref();
        let share = line.added_share().map(quantity::signed_percent).unwrap_or_default();
        let mut cells = vec![
            whole(line.instructions()),
            over.map(|over| quantity::estimate(&over.dma)).unwrap_or_default(),
            share,
            over.map(|over| quantity::estimate(&over.elsewhere)).unwrap_or_default(),
        ];
        cells.extend(self.events.iter().map(|event| more_events(line, *event)));
        cells.extend(self.prices.map(|prices| line.added_time(Some(prices)).unwrap_or_default()));
        Row {
            name: shorten(&plain(&line.sheet.preset), PRESET_WIDTH_MAX),
            ink: Some(Ink::DmaPath(Cost::of(line.sheet.dma_path))),
            cells,
        }
    }
}

/// A sheet: its DMA path, what it is compared with, and how often and when it was measured.
fn sheet_words(sheet: &TollSheet, shown: &[&TollSheet]) -> String {
    let base = match &sheet.base {
        None => "the base".to_owned(),
        Some(base) if shown.iter().any(|other| other.preset == *base) => format!("over {}", plain(base)),
        Some(base) => {
            format!("its base {} is not among the sheets, so what translation costs is unknown", plain(base))
        }
    };
    let boots = quantity::count(sheet.boots.len(), "boot");
    format!("{}: {}; {base}; {boots}, {}", plain(&sheet.preset), sheet.dma_path, sheet.measured_on)
}

/// How many more events there are than on the base; empty without a base, and `?` if they were not counted on both.
fn more_events(line: &SheetLine<'_>, event: Event) -> String {
    let Some(over) = &line.over else { return String::new() };
    let counted = |toll: &Toll| toll.events.contains_key(&event);
    let both = counted(line.toll) && line.base.is_some_and(|(_, base)| counted(base));
    match (both, over.events.get(&event)) {
        (false, _) => "?".to_owned(),
        (true, None) => "0".to_owned(),
        (true, Some(more)) => quantity::estimate(&more.mean),
    }
}

/// Instructions per I/O; from a thousand on without decimals.
fn whole(instructions: f64) -> String {
    quantity::per_io(if instructions >= 1000.0 { instructions.round() } else { instructions })
}
