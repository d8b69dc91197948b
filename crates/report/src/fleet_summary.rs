//! The page of a fleet: adapters by path, findings, and hosts that differ from their peers or from what they were.

use crate::page::drawing::{Bars, Drawing, Kind, Line};
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::table::{Row, Table};
use crate::page::{Lead, Page};
use escape::terminal::plain;
use fleet::{Change, Odd, Summary};

/// Columns for the names of facts.
const NAMES: usize = 12;
/// Odd hosts and changes that are shown at most.
const ROWS_MAX: usize = 200;

/// A fleet on one page. `source` is the folder of its tables, and `day` gives the day of a time in microseconds since 1970.
pub fn fleet_summary(summary: &Summary, source: &str, day: impl Fn(i64) -> String) -> Page {
    let mut page = Page::titled(format!("Fleet of {} hosts: {}", summary.hosts, plain(source)));
    let Summary { captures, incomplete, errors, .. } = summary;
    let mut facts = vec![Fact::known("captures", &captures.to_string())];
    if *incomplete > 0 {
        let words = format!(
            "of {incomplete} hosts something that decides was not read: their paths and findings may be wrong"
        );
        facts.push(Fact::known("incomplete", &words));
    }
    let kinds: Vec<String> =
        errors.iter().map(|(kind, number)| format!("{number} {}", plain(kind))).collect();
    let words = if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") };
    facts.push(Fact::known("errors", &words));
    page.facts(facts, NAMES);
    add_odd(&mut page, &summary.odd);
    add_findings(&mut page, summary);
    add_paths(&mut page, summary);
    add_changes(&mut page, &summary.changes, day);
    page
}

fn add_odd(page: &mut Page, odd: &[Odd]) {
    page.heading("Hosts that differ from others of the same machine");
    if odd.is_empty() {
        return page
            .prose("None: of each machine with five hosts or more, all are alike, or too many differ.", 0);
    }
    for one in odd.iter().take(ROWS_MAX) {
        let Odd { host, machine, what, value, usual, same, peers } = one;
        let words = format!("{what}: {value}; {same} of {peers} {machine} have {usual}");
        page.item(Lead::Name(plain(host)), plain(&words));
    }
    add_rest(page, odd.len());
}

fn add_findings(page: &mut Page, summary: &Summary) {
    page.heading("Findings");
    if summary.findings.is_empty() {
        return page.prose("None.", 0);
    }
    let rows = summary.findings.iter().map(|one| Row {
        name: plain(&one.id),
        ink: (one.severity == "critical").then_some(Ink::Strong),
        cells: vec![plain(&one.severity), one.hosts.to_string(), one.findings.to_string()],
    });
    page.table(Table::with_wrapped_names("finding", &["severity", "hosts", "findings"], rows.collect()));
    page.remark("`iotoll inspect --from CAPTURE --explain` has a finding's evidence and its fix.");
}

fn add_paths(page: &mut Page, summary: &Summary) {
    page.heading("Adapters by DMA path");
    let rows = summary.paths.iter().map(|one| Row {
        name: plain(&one.dma_path),
        ink: None,
        cells: vec![one.adapters.to_string(), one.hosts.to_string()],
    });
    page.table(Table::with_wrapped_names("DMA path", &["adapters", "hosts"], rows.collect()));
    let points = (1..).zip(&summary.paths).map(|(x, one)| (f64::from(x), one.adapters as f64)).collect();
    page.push(crate::page::Block::Drawing(Drawing(Kind::Bars(Bars {
        name: "Adapters by DMA path".to_owned(),
        y_title: "adapters".to_owned(),
        categories: summary.paths.iter().map(|one| plain(&one.dma_path)).collect(),
        lines: vec![Line { name: "adapters".to_owned(), points }],
    }))));
}

fn add_changes(page: &mut Page, changes: &[Change], day: impl Fn(i64) -> String) {
    page.heading("What changed between captures of a host");
    if changes.is_empty() {
        return page.prose("Nothing, or no host with a name was captured twice.", 0);
    }
    for one in changes.iter().take(ROWS_MAX) {
        let Change { host, modified_us, what, before, after } = one;
        let since = modified_us.map(&day).map_or(String::new(), |day| format!(", file of {day}"));
        page.item(Lead::Name(plain(host)), plain(&format!("{what}: {before}, then {after}{since}")));
    }
    add_rest(page, changes.len());
}

/// Says how many rows of so many are not shown.
fn add_rest(page: &mut Page, all: usize) {
    if all > ROWS_MAX {
        page.remark(format!("{} further ones are not shown; the tables have all.", all - ROWS_MAX));
    }
}
