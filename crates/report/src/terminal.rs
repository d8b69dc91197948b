//! An inspection on a terminal.

mod adapters_answer;
mod benchmark;
mod blk;
mod blk_benchmark;
mod block_answer;
mod findings;
mod flash_array_answer;
mod grid;
mod hosts_answer;
mod lab_list;
mod map;
mod memory_answer;
mod memtype;
mod model_answer;
mod outlook;
mod page;
mod reproduction;
mod table;
mod toll_difference;
mod toll_sheet;
mod toll_table;

pub use adapters_answer::adapters_answer;
pub use benchmark::{benchmark, benchmark_brief};
pub use blk::{BlockAdapter, BlockDisk, ControllerLog, LogEntry, block_adapters, controller_log};
pub use blk_benchmark::blk_benchmark;
pub use block_answer::block_answer;
pub use flash_array_answer::flash_array_answer;
pub use hosts_answer::hosts_answer;
pub use lab_list::{LabPreset, lab_list};
pub use map::map_benchmark;
pub use memory_answer::memory_answer;
pub use memtype::memtype_benchmark;
pub use model_answer::model_answer;
pub use reproduction::reproduction;
pub use toll_difference::toll_difference;
pub use toll_sheet::toll_sheet;
pub use toll_table::toll_table;

use crate::fact::{Fact, Section, Value};
use crate::length::Length;
use crate::style::{Ink, Style};
use crate::{batch, cost, headline, memory_types, quantity, row, sheet, summary};
use escape::terminal::plain;
use host::Bdf;
use host::diagnose::{Inspection, Verdict};
use host::facts::Unseen;
use page::Page;

/// Rows of the table of adapters.
const BATCHES_MAX: usize = 200;
/// Sources that were not seen.
const UNSEEN_MAX: usize = 50;
/// Facts of a section.
const FACTS_MAX: usize = 100;

/// A whole host: what it is, the DMA path of each adapter, what was found, what was not seen.
///
/// Lines are at most `width` columns wide, as long as that is 60 or more.
pub fn inspection(inspection: &Inspection, width: usize, style: Style, length: Length) -> String {
    let rows = row::rows(inspection);
    let mut page = Page::new(width, style).of_length(length);
    page.title(&capitalised(&headline::sentence(&rows, inspection)));
    for fact in summary::facts(&inspection.host) {
        page.fact(&fact, 9);
    }
    adapters(&mut page, inspection, &rows);
    if let Some(section) = memory_types::section(&inspection.host) {
        self::section(&mut page, &section);
    }
    outlook::show(&mut page, &inspection.outlooks);
    findings::show(&mut page, &inspection.findings);
    unseen(&mut page, &inspection.host.unseen);
    length.of_report(page.done())
}

/// One adapter in full; `None` if there is none at this address.
pub fn adapter(
    inspection: &Inspection,
    address: Bdf,
    width: usize,
    style: Style,
    length: Length,
) -> Option<String> {
    let sections = sheet::sections(inspection, address)?;
    let mut page = Page::new(width, style).of_length(length);
    let (adapter, verdict) = inspection.adapters().find(|(one, _)| one.function.address == address)?;
    let device = adapter.names.device.as_deref().unwrap_or("no name known");
    page.title(&format!("{address} · {}", plain(device)));
    toll(&mut page, verdict);
    if let Some(doubts) = headline::doubts(&inspection.host) {
        page.warnings(&[doubts]);
    }
    for section in &sections {
        self::section(&mut page, section);
    }
    outlook::show(&mut page, inspection.outlooks.iter().filter(|outlook| outlook.address == address));
    let own = inspection.findings.iter().filter(|finding| finding.address == Some(address));
    findings::show(&mut page, own);
    unseen(&mut page, inspection.host.unseen.iter().filter(|one| one.decisive));
    Some(length.of_report(page.done()))
}

fn toll(page: &mut Page, verdict: &Verdict) {
    let word = page.style.paint(Ink::DmaPath(cost::Cost::of(verdict.dma_path)), verdict.dma_path.word());
    page.led(&format!("{word}  "), verdict.dma_path.word().len() + 2, verdict.dma_path.toll(), 0);
}

fn section(page: &mut Page, section: &Section) {
    page.heading(section.title);
    let widest = section.facts.iter().map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    let shown = page.length.shown(section.facts.len(), FACTS_MAX);
    for fact in &section.facts[..shown] {
        page.fact(fact, widest + 2);
    }
    page.more(section.facts.len() - shown, "more fact", 2);
}

fn adapters(page: &mut Page, inspection: &Inspection, rows: &[row::Row]) {
    page.heading("Adapters by DMA path, worst first");
    let batches = batch::batches(rows);
    if !batches.is_empty() {
        let shown = page.length.shown(batches.len(), BATCHES_MAX);
        table::show(page, &batches[..shown]);
        page.more(batches.len() - shown, "more kind of adapter", 2);
        page.blank();
    }
    for (dma_path, count) in batch::dma_paths(rows) {
        let word = format!("{:17} {:>5}  ", dma_path.word(), quantity::grouped(count as u64));
        let painted = page.style.paint(Ink::DmaPath(cost::Cost::of(dma_path)), &word);
        page.led(&painted, word.len(), dma_path.toll(), 2);
    }
    let unbound = row::unbound(inspection);
    if unbound > 0 {
        let verb = if unbound == 1 { "has no driver and does" } else { "have no driver and do" };
        page.prose(&format!("{} {verb} no DMA", quantity::count(unbound, "function")), 2);
    }
    if batches.len() < rows.len() {
        page.prose(
            "Adapters alike are shown together. One in full: iotoll inspect ADDRESS; each by itself: iotoll inspect --json",
            2,
        );
    }
}

fn unseen<'i>(page: &mut Page, unseen: impl IntoIterator<Item = &'i Unseen>) {
    let unseen: Vec<&Unseen> = unseen.into_iter().collect();
    if unseen.is_empty() {
        return;
    }
    page.heading("Not seen");
    let shown = page.length.shown(unseen.len(), UNSEEN_MAX);
    for one in &unseen[..shown] {
        page.item("- ", &plain(&one.what), 0);
        page.fact(&Fact::known("  why", &one.why), 11);
        page.fact(&Fact::known("  to see", &one.remedy), 11);
    }
    page.more(unseen.len() - shown, "more source", 0);
}

fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

impl Value {
    fn ink(&self) -> Option<Ink> {
        match self {
            Self::Known(_) => None,
            Self::Absent(_) => Some(Ink::Dim),
            Self::Unknown(_) => Some(Ink::DmaPath(cost::Cost::Untold)),
        }
    }
}
