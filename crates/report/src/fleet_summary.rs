//! The page of a fleet: findings with their fixes, hosts that differ from their peers or from what they were, and adapters by path.

use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::length::Length;
use crate::page::quantity::{self, count, grouped};
use crate::page::shorten::shorten;
use crate::page::table::{Row, Table};
use crate::page::{Block, Details, Lead, Page};
use escape::terminal::plain;
use fleet::{Change, Failure, FleetFinding, FleetFix, FleetHost, Odd, PathCount, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// Columns for the names of facts.
const NAMES: usize = 13;
/// Findings, odd hosts, changes and errors that a folded page shows at most.
const ROWS_MAX: usize = 100;
/// Hosts to begin with that it shows.
const WORST_MAX: usize = 10;
/// Fixes of a finding that it shows: those of most hosts.
const FIXES_MAX: usize = 3;
/// Hosts or addresses that one of its lists names.
const NAMED_MAX: usize = 8;
/// Columns for what a fix, its hosts and its risk are called.
const LABELS: usize = 6;
/// Columns of the longest text of an error, which may quote its input.
const ERROR_MAX: usize = 400;

/// A fleet on one page. `source` is the folder of its tables, and `day` gives the day of a time in microseconds since 1970.
pub fn fleet_summary(summary: &Summary, source: &str, day: impl Fn(i64) -> String, length: Length) -> Page {
    let hosts = count(summary.hosts, "host");
    let mut page = Page::titled(format!("Fleet of {hosts}: {}", plain(source)));
    page.facts(facts(summary), NAMES);
    add_findings(&mut page, &summary.findings, length);
    add_worst(&mut page, &summary.by_host, length);
    add_odd(&mut page, summary, length);
    add_paths(&mut page, &summary.paths, length);
    add_changes(&mut page, summary, day, length);
    add_errors(&mut page, &summary.errors, length);
    page
}

/// How much was read.
fn facts(summary: &Summary) -> Vec<Fact> {
    let mut facts = Vec::new();
    match summary.inputs {
        None => {
            let words = "not known: the list that a run keeps of them, all.inputs, is missing or damaged, so some may have no rows yet";
            facts.push(Fact::known("inputs", words));
        }
        Some(found) if !summary.unread.is_empty() => {
            let words = format!(
                "{} of the {} that the last run found were not read, and are on no page: run `iotoll fleet` again, or its other shards",
                grouped(summary.unread.len() as u64),
                grouped(found as u64)
            );
            facts.push(Fact::known("inputs", &words));
        }
        Some(_) => {}
    }
    facts.push(Fact::known("captures", &grouped(summary.captures as u64)));
    let hosts = |number: usize| count(number, "host");
    if summary.incomplete > 0 {
        let words = "something that decides was not read: paths and findings may be wrong";
        facts.push(Fact::known("incomplete", &format!("of {} {words}", hosts(summary.incomplete))));
    }
    if summary.without_adapters > 0 {
        let words = "no adapter is known, so nothing below is about theirs: a log alone tells few or none";
        facts.push(Fact::known("no adapters", &format!("of {} {words}", hosts(summary.without_adapters))));
    }
    facts.push(Fact::known("errors", &errors_by_kind(&summary.errors)));
    facts
}

/// `none`, or `2 no-capture, 1 unreadable`.
fn errors_by_kind(errors: &[Failure]) -> String {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    errors.iter().for_each(|one| *kinds.entry(&one.kind).or_default() += 1);
    let kinds: Vec<String> =
        kinds.into_iter().map(|(kind, number)| format!("{number} {}", plain(kind))).collect();
    if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") }
}

fn add_odd(page: &mut Page, summary: &Summary, length: Length) {
    let Summary { odd, compared, hosts, .. } = summary;
    page.heading("Hosts that differ from others of the same machine");
    let found = if odd.is_empty() { "None. " } else { "" };
    page.prose(
        format!(
            "{found}Adapters and findings of {} of {} were compared: where five or more are of one machine, and the same was not seen of them. \
             One is named if all others are alike, or at least nine of ten.",
            grouped(*compared as u64),
            count(*hosts, "host")
        ),
        0,
    );
    let hosts = by_host(odd);
    let shown = length.shown(hosts.len(), ROWS_MAX);
    for (host, ways) in hosts.iter().take(shown) {
        let Odd { input, machine, .. } = ways[0][0];
        page.bullet(format!("{} ({})", of_capture(host, input), plain(machine)));
        for alike in ways {
            let Odd { value, usual, same, peers, .. } = alike[0];
            let whats: Vec<String> = alike.iter().map(|one| one.what.clone()).collect();
            let words = format!("{value}; {same} of {peers} have {usual}");
            page.prose(format!("{}: {}", names(&whats, length), plain(&words)), 4);
        }
    }
    add_rest(page, hosts.len() - shown);
}

/// What differs by host, with that together which differs in the same way: what makes one adapter differ mostly makes others.
fn by_host(odd: &[Odd]) -> BTreeMap<&str, Vec<Vec<&Odd>>> {
    let is_alike = |one: &Odd, other: &Odd| {
        (&one.value, &one.usual, one.same, one.peers) == (&other.value, &other.usual, other.same, other.peers)
    };
    let mut hosts: BTreeMap<&str, Vec<Vec<&Odd>>> = BTreeMap::new();
    for one in odd {
        let ways = hosts.entry(&one.host).or_default();
        match ways.iter_mut().find(|alike| is_alike(alike[0], one)) {
            Some(alike) => alike.push(one),
            None => ways.push(vec![one]),
        }
    }
    hosts
}

/// `host; capture PATH`, or the path alone of a host without a name.
fn of_capture(host: &str, input: &str) -> String {
    if host == input { plain(host) } else { format!("{}; capture {}", plain(host), plain(input)) }
}

fn add_findings(page: &mut Page, findings: &[FleetFinding], length: Length) {
    page.heading("Findings");
    if findings.is_empty() {
        return page.prose("None.", 0);
    }
    let shown = length.shown(findings.len(), ROWS_MAX);
    let rows = findings[..shown].iter().map(|one| Row {
        name: plain(&one.id),
        ink: (one.severity == "critical").then_some(Ink::Strong),
        cells: vec![plain(&one.severity), one.hosts.len().to_string(), one.findings.to_string()],
    });
    page.table(Table::with_wrapped_names("finding", &["severity", "hosts", "findings"], rows.collect()));
    add_rest(page, findings.len() - shown);
    page.remark(
        "Below are the hosts of each, and the fixes that an inspection has for them; those of notes are folded. An inspection of the capture \
         itself (`iotoll inspect --from CAPTURE --explain`) also has the evidence, and how to verify a fix.",
    );
    findings[..shown].iter().for_each(|one| page.push(Block::Details(fixes_of(one, length))));
}

/// A finding's hosts and fixes. Notes are folded.
fn fixes_of(finding: &FleetFinding, length: Length) -> Details {
    let FleetFinding { id, severity, hosts, fixes, .. } = finding;
    let mut page = Page::default();
    let shown = length.shown(fixes.len(), FIXES_MAX);
    for (place, fix) in fixes[..shown].iter().enumerate() {
        if place > 0 {
            page.blank();
        }
        page.facts(facts_of(fix, length), LABELS);
    }
    if fixes.len() > shown {
        page.blank();
        let more = grouped((fixes.len() - shown) as u64);
        page.prose(format!("{more} more, for other adapters or hosts: with --full, or --json."), 0);
    }
    let told: BTreeSet<&String> = fixes.iter().flat_map(|fix| &fix.hosts).collect();
    if told.len() < hosts.len() {
        page.prose(
            format!(
                "Of {} only a document, or an inspection by another version of iotoll, is there: fixes are shown where this version inspected the \
                 capture.",
                count(hosts.len() - told.len(), "host")
            ),
            0,
        );
    }
    Details {
        summary: format!("{}, {}: {}", plain(id), plain(severity), listed(hosts, "host", length)),
        anchor: plain(&format!("{id}-{severity}")),
        is_open: severity != "note",
        blocks: page.blocks,
    }
}

/// Where a fix is for, and what it is: prose with `[1]` in place of its first command, then each command in a line of its own, which is not wrapped.
fn facts_of(fix: &FleetFix, length: Length) -> Vec<Fact> {
    let FleetFix { what, what_of, findings, fix, commands, risk, addresses, hosts } = fix;
    let (fix, commands) = with_marks(fix, commands);
    let mut on = listed(hosts, "host", length);
    if !addresses.is_empty() {
        on = format!("{on}; {} at {}", count(*findings, "adapter"), names(addresses, length));
    }
    // Others have other numbers.
    let what = if *findings > 1 { &format!("{what} (one of {what_of})") } else { what };
    let mut facts: Vec<Fact> =
        [("on", &on), ("what", what), ("fix", &fix)].map(|(name, text)| Fact::known(name, text)).into();
    facts.extend((1..).zip(commands).map(|(number, command)| Fact::command(&format!("[{number}]"), command)));
    facts.push(Fact::known("risk", risk));
    facts
}

/// The words of a fix with marks in place of its commands, and these. One with characters that can't be shown as they are stays in the words.
fn with_marks<'f>(fix: &str, commands: &'f [String]) -> (String, Vec<&'f str>) {
    let (mut words, mut rest, mut marked) = (String::new(), fix, Vec::new());
    for command in commands.iter().filter(|command| plain(command) == **command) {
        let Some((before, after)) = rest.split_once(command.as_str()) else { continue };
        marked.push(command.as_str());
        words += before;
        words += if words.is_empty() { "run " } else { "" };
        words += &format!("[{}]", marked.len());
        rest = after;
    }
    (words + rest, marked)
}

/// Hosts that need most.
fn add_worst(page: &mut Page, hosts: &[FleetHost], length: Length) {
    let is_bad = |host: &&FleetHost| host.critical + host.warnings > 0;
    let bad: Vec<&FleetHost> = hosts.iter().filter(is_bad).collect();
    if bad.is_empty() {
        return;
    }
    page.heading("Hosts with the worst findings");
    let shown = length.shown(bad.len(), WORST_MAX);
    for one in &bad[..shown] {
        let FleetHost { host, input, critical, warnings, notes, .. } = one;
        let found =
            format!("{critical} critical, {}, {}", count(*warnings, "warning"), count(*notes, "note"));
        page.bullet(format!("{found}: {}", of_capture(host, input)));
    }
    add_rest(page, bad.len() - shown);
}

fn add_paths(page: &mut Page, paths: &[PathCount], length: Length) {
    page.heading("Adapters by DMA path");
    let shown = length.shown(paths.len(), ROWS_MAX);
    let rows = paths[..shown].iter().map(|one| Row {
        name: plain(&one.dma_path),
        ink: None,
        cells: vec![one.adapters.to_string(), one.hosts.to_string()],
    });
    page.table(Table::with_wrapped_names("DMA path", &["adapters", "hosts"], rows.collect()));
    add_rest(page, paths.len() - shown);
}

fn add_changes(page: &mut Page, summary: &Summary, day: impl Fn(i64) -> String, length: Length) {
    let Summary { changes, of_one_time, .. } = summary;
    page.heading("What changed between captures of a host");
    if !of_one_time.is_empty() {
        let words = "Several captures of a host whose files have the same time have no order: no change between them is shown, and where they are the newest, the last by path counts as the newest";
        page.prose(format!("{words} ({}).", listed(of_one_time, "host", length)), 0);
    }
    if changes.is_empty() {
        return page.prose("No change is known: no host with a name was captured twice, or its captures are alike or have no order.", 0);
    }
    let shown = length.shown(changes.len(), ROWS_MAX);
    for one in &changes[..shown] {
        let Change { host, modified_us, what, before, after } = one;
        let since = modified_us.map(&day).map_or(String::new(), |day| format!(", file of {day}"));
        page.bullet(plain(&format!("{host}: {what}: {before}, then {after}{since}")));
    }
    add_rest(page, changes.len() - shown);
}

fn add_errors(page: &mut Page, errors: &[Failure], length: Length) {
    if errors.is_empty() {
        return;
    }
    page.heading("Inputs that were not inspected");
    let shown = length.shown(errors.len(), ROWS_MAX);
    for one in &errors[..shown] {
        page.item(Lead::Name(plain(&one.kind)), shorten(&plain(&one.what), ERROR_MAX));
    }
    add_rest(page, errors.len() - shown);
}

/// `3 hosts: a, b, c`.
fn listed(all: &[String], noun: &str, length: Length) -> String {
    format!("{}: {}", count(all.len(), noun), names(all, length))
}

/// `a, b, c`, with the first names alone if there are many.
fn names(all: &[String], length: Length) -> String {
    plain(&quantity::listed(all, length.shown(all.len(), NAMED_MAX)))
}

/// Says how many rows are not shown.
fn add_rest(page: &mut Page, left_out: usize) {
    if left_out > 0 {
        page.remark(format!("{} more: with --full, or --json.", grouped(left_out as u64)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_without_an_order_are_named() {
        let page = |hosts: &[&str]| {
            let of_one_time = hosts.iter().map(|host| (*host).to_owned()).collect();
            let summary = Summary { of_one_time, ..Summary::default() };
            let mut page = Page::default();
            add_changes(&mut page, &summary, |_| String::new(), Length::Folded);
            format!("{page:?}")
        };
        assert!(
            page(&["web\u{1b}01"]).contains("counts as the newest (1 host: web\u{fffd}01)."),
            "{}",
            page(&["web01"])
        );
        assert!(!page(&[]).contains("newest") && page(&[]).contains("No change is known"));
    }

    /// One command may only complete what stands before it, or be for those who can't do that: words say when each is for.
    #[test]
    fn commands_have_marks_in_the_words() {
        let check = |fix: &str, commands: &[&str], words: &str, marked: &[&str]| {
            let commands: Vec<String> = commands.iter().map(|command| (*command).to_owned()).collect();
            assert_eq!(with_marks(fix, &commands), (words.to_owned(), marked.to_vec()));
        };
        let fix = "reboot; else echo a > b, echo DMA > type, echo a > b; and look";
        let commands = ["echo a > b", "echo DMA > type", "echo a > b"];
        check(fix, &commands, "reboot; else [1], [2], [3]; and look", &commands);
        check("grubby --x and reboot", &["grubby --x"], "run [1] and reboot", &["grubby --x"]);
        check("reboot", &[], "reboot", &[]);
        // What is not in the words has no place, and what can't be shown as it is is no command to paste.
        check("reboot", &["rm -rf /"], "reboot", &[]);
        check("run a\u{1b}b now", &["a\u{1b}b"], "run a\u{1b}b now", &[]);
    }
}
