//! The page of a fleet: adapters by path, findings, and hosts that differ from their peers or from what they were.

use crate::page::drawing::{Bars, Drawing, Kind, Line};
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::quantity::{count, grouped};
use crate::page::table::{Row, Table};
use crate::page::{Block, Details, Lead, Page};
use escape::terminal::plain;
use fleet::{Change, Failure, FleetFinding, Odd, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// Columns for the names of facts.
const NAMES: usize = 13;
/// Odd hosts, changes and errors that are shown at most.
const ROWS_MAX: usize = 200;
/// Fixes of a finding that are shown at most: those of most hosts.
const FIXES_MAX: usize = 3;
/// Hosts that are named in one list.
const HOSTS_MAX: usize = 8;
/// Columns for what a fix, its hosts and its risk are called.
const LABELS: usize = 6;
/// Columns before a command.
const COMMANDS: usize = 8;

/// A fleet on one page. `source` is the folder of its tables, and `day` gives the day of a time in microseconds since 1970.
pub fn fleet_summary(summary: &Summary, source: &str, day: impl Fn(i64) -> String) -> Page {
    let hosts = count(summary.hosts, "host");
    let mut page = Page::titled(format!("Fleet of {hosts}: {}", plain(source)));
    let mut facts = vec![Fact::known("captures", &summary.captures.to_string())];
    if summary.incomplete > 0 {
        let words = format!(
            "of {} something that decides was not read: paths and findings may be wrong",
            count(summary.incomplete, "host")
        );
        facts.push(Fact::known("incomplete", &words));
    }
    if summary.without_adapters > 0 {
        let words = format!(
            "of {} no adapter is known, so nothing below is about their adapters: a log alone tells few or none",
            count(summary.without_adapters, "host")
        );
        facts.push(Fact::known("no adapters", &words));
    }
    facts.push(Fact::known("errors", &errors_by_kind(&summary.errors)));
    page.facts(facts, NAMES);
    add_findings(&mut page, &summary.findings);
    summary.findings.iter().for_each(|finding| page.push(Block::Details(fixes_of(finding))));
    add_odd(&mut page, &summary.odd);
    add_paths(&mut page, summary);
    add_changes(&mut page, &summary.changes, day);
    add_errors(&mut page, &summary.errors);
    page
}

/// `none`, or `2 no-capture, 1 unreadable`.
fn errors_by_kind(errors: &[Failure]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    errors.iter().for_each(|one| *kinds.entry(&one.kind).or_default() += 1);
    let kinds: Vec<String> =
        kinds.into_iter().map(|(kind, number)| format!("{number} {}", plain(kind))).collect();
    if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
}

fn add_odd(page: &mut Page, odd: &[Odd]) {
    page.heading("Hosts that differ from others of the same machine");
    if odd.is_empty() {
        return page
            .prose("None. Where five hosts or more are of one machine, they are alike, or more than one in ten differs.", 0);
    }
    for one in odd.iter().take(ROWS_MAX) {
        let Odd { host, machine, what, value, usual, same, peers } = one;
        let words = format!("{what}: {value}; {same} of {peers} {machine} have {usual}");
        page.item(Lead::Name(plain(host)), plain(&words));
    }
    add_rest(page, odd.len());
}

fn add_findings(page: &mut Page, findings: &[FleetFinding]) {
    page.heading("Findings");
    if findings.is_empty() {
        return page.prose("None.", 0);
    }
    let rows = findings.iter().map(|one| Row {
        name: plain(&one.id),
        ink: (one.severity == "critical").then_some(Ink::Strong),
        cells: vec![plain(&one.severity), one.hosts.len().to_string(), one.findings.to_string()],
    });
    page.table(Table::with_wrapped_names("finding", &["severity", "hosts", "findings"], rows.collect()));
    page.remark(
        "Fixes are those that an inspection has for the hosts beside them; `iotoll inspect --from CAPTURE --explain` has the evidence, and how to \
         verify them. Those of notes are shown with --full.",
    );
}

/// A finding's hosts and fixes. Notes are folded.
fn fixes_of(finding: &FleetFinding) -> Details {
    let FleetFinding { id, severity, hosts, fixes, .. } = finding;
    let mut page = Page::default();
    for (place, fix) in fixes.iter().take(FIXES_MAX).enumerate() {
        if place > 0 {
            page.blank();
        }
        let mut facts = vec![Fact::known("fix", &fix.fix)];
        if fix.hosts != *hosts {
            facts.insert(0, Fact::known("on", &listed(&fix.hosts)));
        }
        facts.push(Fact::known("risk", &fix.risk));
        page.facts(facts, LABELS);
        fix.commands.iter().for_each(|command| page.line(format!("{:COMMANDS$}{}", "", plain(command))));
    }
    if let Some(more @ [_, ..]) = fixes.get(FIXES_MAX..) {
        let more = grouped(more.len() as u64);
        page.prose(
            format!("{more} more, for other adapters or hosts: `iotoll fleet report --json` has all."),
            0,
        );
    }
    let told: BTreeSet<&String> = fixes.iter().flat_map(|fix| &fix.hosts).collect();
    if told.len() < hosts.len() {
        let documents = count(hosts.len() - told.len(), "host");
        page.prose(format!("Of {documents} there are only documents, whose fixes are not repeated here."), 0);
    }
    Details {
        summary: format!("{}, {}: {}", plain(id), plain(severity), listed(hosts)),
        anchor: plain(&format!("{id}-{severity}")),
        is_open: severity != "note",
        blocks: page.blocks,
    }
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
    page.push(Block::Drawing(Drawing(Kind::Bars(Bars {
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

fn add_errors(page: &mut Page, errors: &[Failure]) {
    if errors.is_empty() {
        return;
    }
    page.heading("Inputs that were not inspected");
    for one in errors.iter().take(ROWS_MAX) {
        page.item(Lead::Name(plain(&one.kind)), plain(&one.what));
    }
    add_rest(page, errors.len());
}

/// `3 hosts: a, b, c`, with the first names alone if there are many.
fn listed(hosts: &[String]) -> String {
    let names: Vec<String> = hosts.iter().take(HOSTS_MAX).map(|host| plain(host)).collect();
    let more = match hosts.len() - names.len() {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    format!("{}: {}{more}", count(hosts.len(), "host"), names.join(", "))
}

/// Says how many rows of so many are not shown.
fn add_rest(page: &mut Page, all: usize) {
    if all > ROWS_MAX {
        page.remark(format!("{} further ones are not shown; the tables have all.", all - ROWS_MAX));
    }
}
