//! An inspection on a terminal: a whole host, or one adapter in full.

use super::screen::Screen;
use super::style::Style;
use super::{adapters, findings, outlook};
use crate::inspection::fold::fold;
use crate::inspection::{adapter as facts, batch, footnotes, headline, memory_types, row, summary};
use crate::page::cost::Cost;
use crate::page::fact::{Fact, Section};
use crate::page::ink::Ink;
use crate::page::length::Length;
use crate::page::quantity;
use crate::page::shorten::capitalised;
use escape::terminal::plain;
use host::Bdf;
use host::diagnose::{Inspection, Verdict};
use host::facts::Unseen;

/// Rows of the table of adapters in a folded report.
const BATCHES_MAX: usize = 200;
/// Unread sources listed in a folded report.
const UNSEEN_MAX: usize = 50;
/// Facts of one section in a folded report.
const FACTS_MAX: usize = 100;

/// A whole host: what is wrong and what to type, the DMA path of each adapter, the findings in full, the machine, and what could
/// not be read. If `explained`, also the cost of each DMA path, memory types, and what findings were concluded from.
///
/// Lines are at most `width` columns wide, as long as that is 60 or more.
pub fn inspection(
    inspection: &Inspection,
    width: usize,
    style: Style,
    length: Length,
    explained: bool,
) -> String {
    let rows = row::rows(inspection);
    let folded = fold(&inspection.findings);
    let mut screen = Screen::new(width, style).with_length(length);
    screen.title(&capitalised(&headline::sentence(&rows, inspection, &folded)));
    findings::show_actions(&mut screen, &folded);
    show_adapters(&mut screen, inspection, &rows, explained);
    findings::show_details(&mut screen, &folded, explained);
    findings::show_unjudged(&mut screen, &inspection.unjudged);
    screen.heading("The host");
    for fact in summary::facts(&inspection.host) {
        screen.fact(&fact, 9);
    }
    if explained {
        if let Some(section) = memory_types::section(&inspection.host) {
            show_section(&mut screen, &section);
        }
        outlook::show(&mut screen, &inspection.outlooks);
    }
    let (in_full, named): (Vec<&Unseen>, Vec<&Unseen>) =
        inspection.host.unseen.iter().partition(|one| explained || one.decisive);
    show_unseen(&mut screen, &in_full, &named);
    if !explained {
        screen.blank();
        screen.prose("Evidence, costs, gains, memory types, and how to see what was not seen: --explain", 0);
    }
    length.cut_report(screen.into_text())
}

/// One adapter in full; `None` if there is none at this address.
pub fn adapter(
    inspection: &Inspection,
    address: Bdf,
    width: usize,
    style: Style,
    length: Length,
) -> Option<String> {
    let sections = facts::sections(inspection, address)?;
    let mut screen = Screen::new(width, style).with_length(length);
    let (adapter, verdict) = inspection.adapters().find(|(one, _)| one.function.address == address)?;
    let device = adapter.names.device.as_deref().unwrap_or("no name known");
    screen.title(&format!("{address} · {}", plain(device)));
    show_dma_path(&mut screen, verdict);
    if let Some(doubts) = headline::doubts(&inspection.host) {
        screen.warning(&doubts);
    }
    let own: Vec<_> = fold(inspection.findings.iter().filter(|finding| finding.address == Some(address)));
    findings::show_actions(&mut screen, &own);
    for section in &sections {
        show_section(&mut screen, section);
    }
    outlook::show(&mut screen, inspection.outlooks.iter().filter(|outlook| outlook.address == address));
    findings::show_details(&mut screen, &own, true);
    findings::show_unjudged(
        &mut screen,
        inspection.unjudged.iter().filter(|problem| problem.address == Some(address)),
    );
    let decisive: Vec<&Unseen> = inspection.host.unseen.iter().filter(|one| one.decisive).collect();
    show_unseen(&mut screen, &decisive, &[]);
    Some(length.cut_report(screen.into_text()))
}

/// Writes an adapter's DMA path and its cost per I/O.
fn show_dma_path(screen: &mut Screen, verdict: &Verdict) {
    let word = screen.style.paint(Ink::DmaPath(Cost::of(verdict.dma_path)), verdict.dma_path.word());
    screen.hanging(&format!("{word}  "), verdict.dma_path.word().len() + 2, verdict.dma_path.toll(), 0);
}

/// Writes a section of facts under its title.
fn show_section(screen: &mut Screen, section: &Section) {
    screen.heading(section.title);
    let widest = section.facts.iter().map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    let shown = screen.length.shown(section.facts.len(), FACTS_MAX);
    for fact in &section.facts[..shown] {
        screen.fact(fact, widest + 2);
    }
    screen.entries_left_out(section.facts.len() - shown, "more fact", 2);
}

/// Writes the table of adapters with its notes, and if `explained` the cost per I/O on each DMA path in use.
fn show_adapters(screen: &mut Screen, inspection: &Inspection, rows: &[row::Row], explained: bool) {
    let batches = batch::batches(rows);
    let unbound = row::unbound(inspection);
    if batches.is_empty() && unbound == 0 {
        return;
    }
    screen.heading("Adapters by DMA path, worst first");
    if !batches.is_empty() {
        let shown = screen.length.shown(batches.len(), BATCHES_MAX);
        adapters::show(screen, &batches[..shown]);
        screen.entries_left_out(batches.len() - shown, "more kind of adapter", 2);
    }
    for note in footnotes::footnotes(rows) {
        screen.prose(&note, 2);
    }
    if explained {
        screen.blank();
        for (dma_path, count) in batch::dma_paths(rows) {
            let word = format!("{:17} {:>5}  ", dma_path.word(), quantity::grouped(count as u64));
            let painted = screen.style.paint(Ink::DmaPath(Cost::of(dma_path)), &word);
            screen.hanging(&painted, word.len(), dma_path.toll(), 2);
        }
    }
    if unbound > 0 {
        let verb = if unbound == 1 { "has no driver and does" } else { "have no driver and do" };
        screen.prose(&format!("{} {verb} no DMA", quantity::count(unbound, "function")), 2);
    }
    if batches.len() < rows.len() {
        screen.prose(
            "Adapters alike are shown together. One in full: iotoll inspect ADDRESS; each by itself: iotoll inspect --json",
            2,
        );
    }
}

/// Writes what could not be read: of some why, and what would show it; of others the name alone.
fn show_unseen(screen: &mut Screen, in_full: &[&Unseen], named: &[&Unseen]) {
    if in_full.is_empty() && named.is_empty() {
        return;
    }
    screen.heading("Not seen");
    let shown = screen.length.shown(in_full.len(), UNSEEN_MAX);
    for one in &in_full[..shown] {
        screen.item("- ", &plain(&one.what), 0);
        screen.fact(&Fact::known("  why", &one.why), 11);
        screen.fact(&Fact::known("  to see", &one.remedy), 11);
    }
    screen.entries_left_out(in_full.len() - shown, "more source", 0);
    if !named.is_empty() {
        let shown = screen.length.shown(named.len(), UNSEEN_MAX);
        let names: Vec<&str> = named[..shown].iter().map(|one| one.what.as_str()).collect();
        screen.prose(&plain(&names.join("; ")), 2);
        screen.entries_left_out(named.len() - names.len(), "more source", 2);
    }
}
