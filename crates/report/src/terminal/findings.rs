//! Findings: each in a line, then each in full.

use super::page::Page;
use crate::fold::{Folded, TOLL, evidence_lines, fold, with_sources};
use crate::quantity;
use crate::style::Ink;
use crate::wrap::shorten;
use escape::shell::Command;
use escape::terminal::plain;
use host::diagnose::{Advice, Finding, Part};

/// From this many on, a list of one line each comes first.
const OVERVIEW_MIN: usize = 4;
/// Findings in the list of one line each.
const OVERVIEW_MAX: usize = 100;
/// Findings told in full.
const DETAILS_MAX: usize = 40;
/// Evidence lines shown of one finding.
const EVIDENCE_MAX: usize = 8;
/// Addresses shown of one finding.
const ADDRESSES_MAX: usize = 32;
/// Up to this many stand beside the finding's name.
const ADDRESSES_FEW: usize = 4;
/// Predictions shown of one finding.
const PREDICTIONS_MAX: usize = 3;
/// Where the texts of a finding begin.
const LABEL_WIDTH: usize = 9;

pub(super) fn show<'i>(page: &mut Page, findings: impl IntoIterator<Item = &'i Finding>) {
    let findings: Vec<&Finding> = findings.into_iter().collect();
    let folded = fold(findings.iter().copied());
    match folded.len() {
        0 => page.heading("No findings"),
        kinds if kinds == findings.len() => page.heading(&capital(kinds)),
        1 => page.heading(&format!("{}, the same on each adapter", capital(findings.len()))),
        kinds => page.heading(&format!("{}, {kinds} of them different", capital(findings.len()))),
    }
    if folded.len() >= OVERVIEW_MIN {
        let shown = page.length.shown(folded.len(), OVERVIEW_MAX);
        for (number, one) in (1..).zip(&folded[..shown]) {
            overview(page, number, one);
        }
        page.more(folded.len() - shown, "more finding", number_width(1));
    }
    let shown = page.length.shown(folded.len(), DETAILS_MAX);
    for (number, one) in (1..).zip(&folded[..shown]) {
        page.blank();
        detail(page, number, one);
    }
    if shown < folded.len() {
        page.blank();
        page.more(folded.len() - shown, "more finding", 0);
    }
    if folded.iter().any(|one| !one.predicted.is_empty()) {
        page.blank();
        page.prose(TOLL, 0);
    }
}

fn capital(count: usize) -> String {
    if count == 1 { "1 finding".to_owned() } else { format!("{} findings", quantity::grouped(count as u64)) }
}

fn overview(page: &mut Page, number: usize, one: &Folded<'_>) {
    let finding = one.finding;
    let severity = format!("{:8}", finding.severity.to_string());
    let painted = page.style.paint(Ink::Severity(finding.severity), &severity);
    let rest = format!("{:26} {}", finding.id.word(), one.short(1));
    let room = page.width.saturating_sub(number_width(number) + severity.len() + 1);
    page.line(&format!("{}{painted} {}", lead(number), shorten(&rest, room)));
}

fn lead(number: usize) -> String {
    format!("{number:>3}. ")
}

fn number_width(number: usize) -> usize {
    lead(number).len()
}

fn detail(page: &mut Page, number: usize, one: &Folded<'_>) {
    let finding = one.finding;
    let head = format!("{}{} {} ", lead(number), finding.severity, finding.id);
    let painted = format!(
        "{}{} {} ",
        lead(number),
        page.style.paint(Ink::Severity(finding.severity), &finding.severity.to_string()),
        page.style.paint(Ink::Strong, finding.id.word())
    );
    let indent = number_width(number);
    let few = one.addresses.len() <= ADDRESSES_FEW;
    let whom = if few { one.short(ADDRESSES_FEW) } else { quantity::count(one.addresses.len(), "adapter") };
    page.led(&painted, head.len(), &whom, 0);
    if !few {
        page.prose(&one.short(ADDRESSES_MAX), indent);
    }
    page.prose(&plain(&finding.what), indent);
    if one.differs {
        let first = one.short_first();
        page.prose(
            &format!("(as told for {first}; the others with addresses and groups of their own)"),
            indent,
        );
    }
    let mut commands = 0;
    advice(page, "fix", &finding.fix, &mut commands, indent);
    field(page, "risk", &finding.risk, indent);
    advice(page, "verify", &finding.verify, &mut commands, indent);
    if let Some(gain) = &finding.gain {
        field(page, "gain", &gain.what, indent);
        field(page, "", &gain.evidence.to_string(), indent);
    }
    predicted(page, one, indent);
    if let Some(forecast) = &finding.forecast {
        field(page, "model", &forecast.what, indent);
        field(page, "", &forecast.basis, indent);
    }
    evidence(page, finding, indent);
}

/// Prose with `[1]` for its first command, then each command in a line of its own. Commands are not wrapped: half a command with a
/// quote left open must not be what somebody pastes.
fn advice(page: &mut Page, name: &str, advice: &Advice, commands: &mut usize, indent: usize) {
    let parts: Vec<&Part> = advice.parts().collect();
    if let [Part::Command(only)] = parts[..] {
        *commands += 1;
        return command(page, name, only, indent);
    }
    let mut prose = String::new();
    let mut below = Vec::new();
    for part in parts {
        match part {
            Part::Prose(words) => prose.push_str(words),
            Part::Command(one) => {
                *commands += 1;
                let mark = format!("[{commands}]");
                prose.push_str(if name == "fix" && prose.is_empty() { "run " } else { "" });
                prose.push_str(&mark);
                below.push((mark, one));
            }
        }
    }
    field(page, name, &prose, indent);
    for (mark, one) in below {
        command(page, &mark, one, indent);
    }
}

fn command(page: &mut Page, name: &str, command: &Command, indent: usize) {
    let name = page.style.paint(Ink::Dim, &format!("{name:LABEL_WIDTH$}"));
    page.line(&format!("{}{name}{}", " ".repeat(indent), plain(&command.to_string())));
}

fn predicted(page: &mut Page, one: &Folded<'_>, indent: usize) {
    for (name, predicted) in [("toll", one.tolls()), ("time", one.times())] {
        let shown = &predicted[..predicted.len().min(PREDICTIONS_MAX)];
        for (index, (line, _)) in with_sources(shown).into_iter().enumerate() {
            field(page, if index == 0 { name } else { "" }, line, indent);
        }
        if let Some(more @ 1..) = predicted.len().checked_sub(PREDICTIONS_MAX) {
            field(page, "", &format!("and {more} more, with other drivers"), indent);
        }
    }
}

fn field(page: &mut Page, name: &str, text: &str, indent: usize) {
    let padded = format!("{name:LABEL_WIDTH$}");
    let painted = page.style.paint(Ink::Dim, &padded);
    page.led(&painted, LABEL_WIDTH, &plain(text), indent);
}

fn evidence(page: &mut Page, finding: &Finding, indent: usize) {
    let lines = evidence_lines(finding);
    let shown = page.length.shown(lines.len(), EVIDENCE_MAX);
    for (index, line) in lines[..shown].iter().enumerate() {
        field(page, if index == 0 { "evidence" } else { "" }, line, indent);
    }
    if let more @ 1.. = lines.len() - shown {
        field(page, "", &format!("and {more} more lines"), indent);
    }
}
