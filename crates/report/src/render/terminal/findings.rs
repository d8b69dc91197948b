//! Findings on a terminal: a list of one line each, then each in full.

use super::screen::Screen;
use crate::inspection::fold::{Folded, PREDICTIONS_EXPLAINED, evidence_lines, fold, lines_with_sources};
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::shorten::shorten;
use escape::shell::Command;
use escape::terminal::plain;
use host::diagnose::{Advice, Finding, Part};

/// From this number of findings on, a list of one line each comes first.
const OVERVIEW_MIN: usize = 4;
/// Findings in the list of one line each, in a folded report.
const OVERVIEW_MAX: usize = 100;
/// Findings shown in full, in a folded report.
const DETAILS_MAX: usize = 40;
/// Evidence lines of one finding, in a folded report.
const EVIDENCE_MAX: usize = 8;
/// Addresses shown for one finding.
const ADDRESSES_MAX: usize = 32;
/// Up to this number, addresses stand beside the finding's name.
const ADDRESSES_FEW: usize = 4;
/// Predictions shown for one finding.
const PREDICTIONS_MAX: usize = 3;
/// Columns for the names of a finding's fields: fix, risk, verify.
const LABEL_WIDTH: usize = 9;

/// Writes the findings, those that are the same but for the address together.
pub(super) fn show<'i>(screen: &mut Screen, findings: impl IntoIterator<Item = &'i Finding>) {
    let findings: Vec<&Finding> = findings.into_iter().collect();
    let folded = fold(findings.iter().copied());
    match folded.len() {
        0 => screen.heading("No findings"),
        kinds if kinds == findings.len() => screen.heading(&number_of(kinds)),
        1 => screen.heading(&format!("{}, the same on each adapter", number_of(findings.len()))),
        kinds => screen.heading(&format!("{}, {kinds} of them different", number_of(findings.len()))),
    }
    if folded.len() >= OVERVIEW_MIN {
        let shown = screen.length.shown(folded.len(), OVERVIEW_MAX);
        for (number, one) in (1..).zip(&folded[..shown]) {
            show_line(screen, number, one);
        }
        screen.entries_left_out(folded.len() - shown, "more finding", number_width(1));
    }
    let shown = screen.length.shown(folded.len(), DETAILS_MAX);
    for (number, one) in (1..).zip(&folded[..shown]) {
        screen.blank();
        show_in_full(screen, number, one);
    }
    if shown < folded.len() {
        screen.blank();
        screen.entries_left_out(folded.len() - shown, "more finding", 0);
    }
    if folded.iter().any(|one| !one.predicted.is_empty()) {
        screen.blank();
        screen.prose(PREDICTIONS_EXPLAINED, 0);
    }
}

/// `1 finding`, `3 findings`.
fn number_of(count: usize) -> String {
    if count == 1 { "1 finding".to_owned() } else { format!("{} findings", quantity::grouped(count as u64)) }
}

/// Writes one finding in one line: number, severity, name and address.
fn show_line(screen: &mut Screen, number: usize, one: &Folded<'_>) {
    let finding = one.finding;
    let severity = format!("{:8}", finding.severity.to_string());
    let painted = screen.style.paint(Ink::Severity(finding.severity), &severity);
    let rest = format!("{:26} {}", finding.id.word(), one.first_addresses(1));
    let room = screen.width.saturating_sub(number_width(number) + severity.len() + 1);
    screen.line(&format!("{}{painted} {}", lead(number), shorten(&rest, room)));
}

/// `  1. `
fn lead(number: usize) -> String {
    format!("{number:>3}. ")
}

/// Columns of [`lead`].
fn number_width(number: usize) -> usize {
    lead(number).len()
}

/// Writes a finding in full: fix, risk, verification, predictions and evidence.
fn show_in_full(screen: &mut Screen, number: usize, one: &Folded<'_>) {
    let finding = one.finding;
    let head = format!("{}{} {} ", lead(number), finding.severity, finding.id);
    let painted = format!(
        "{}{} {} ",
        lead(number),
        screen.style.paint(Ink::Severity(finding.severity), &finding.severity.to_string()),
        screen.style.paint(Ink::Strong, finding.id.word())
    );
    let indent = number_width(number);
    let few = one.addresses.len() <= ADDRESSES_FEW;
    let addresses = if few {
        one.first_addresses(ADDRESSES_FEW)
    } else {
        quantity::count(one.addresses.len(), "adapter")
    };
    screen.hanging(&painted, head.len(), &addresses, 0);
    if !few {
        screen.prose(&one.first_addresses(ADDRESSES_MAX), indent);
    }
    screen.prose(&plain(&finding.what), indent);
    if one.differs {
        let first = one.first_address();
        screen.prose(
            &format!("(as written for {first}; the others have their own addresses and groups)"),
            indent,
        );
    }
    let mut commands = 0;
    show_advice(screen, "fix", &finding.fix, &mut commands, indent);
    field(screen, "risk", &finding.risk, indent);
    show_advice(screen, "verify", &finding.verify, &mut commands, indent);
    if let Some(gain) = &finding.gain {
        field(screen, "gain", &gain.what, indent);
        field(screen, "", &gain.evidence.to_string(), indent);
    }
    show_predictions(screen, one, indent);
    if let Some(forecast) = &finding.forecast {
        field(screen, "model", &forecast.what, indent);
        field(screen, "", &forecast.basis, indent);
    }
    show_evidence(screen, finding, indent);
}

/// Writes prose with `[1]` in place of its first command, then each command in a line of its own. Commands are not
/// wrapped, so that nobody pastes half a command with an open quote.
fn show_advice(screen: &mut Screen, name: &str, advice: &Advice, commands: &mut usize, indent: usize) {
    let parts: Vec<&Part> = advice.parts().collect();
    if let [Part::Command(only)] = parts[..] {
        *commands += 1;
        return show_command(screen, name, only, indent);
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
    field(screen, name, &prose, indent);
    for (mark, one) in below {
        show_command(screen, &mark, one, indent);
    }
}

/// Writes a command in a line of its own, never wrapped.
fn show_command(screen: &mut Screen, name: &str, command: &Command, indent: usize) {
    let name = screen.style.paint(Ink::Dim, &format!("{name:LABEL_WIDTH$}"));
    screen.line(&format!("{}{name}{}", " ".repeat(indent), plain(&command.to_string())));
}

/// Writes what a fix changes: instructions and events, then time.
fn show_predictions(screen: &mut Screen, one: &Folded<'_>, indent: usize) {
    for (name, predicted) in [("toll", one.tolls()), ("time", one.times())] {
        let shown = &predicted[..predicted.len().min(PREDICTIONS_MAX)];
        for (index, (line, _)) in lines_with_sources(shown).into_iter().enumerate() {
            field(screen, if index == 0 { name } else { "" }, line, indent);
        }
        if let Some(more @ 1..) = predicted.len().checked_sub(PREDICTIONS_MAX) {
            field(screen, "", &format!("and {more} more, with other drivers"), indent);
        }
    }
}

/// Writes a field of a finding, its text hanging beside its name.
fn field(screen: &mut Screen, name: &str, text: &str, indent: usize) {
    let padded = format!("{name:LABEL_WIDTH$}");
    let painted = screen.style.paint(Ink::Dim, &padded);
    screen.hanging(&painted, LABEL_WIDTH, &plain(text), indent);
}

/// Writes the lines that a finding is concluded from.
fn show_evidence(screen: &mut Screen, finding: &Finding, indent: usize) {
    let lines = evidence_lines(finding);
    let shown = screen.length.shown(lines.len(), EVIDENCE_MAX);
    for (index, line) in lines[..shown].iter().enumerate() {
        field(screen, if index == 0 { "evidence" } else { "" }, line, indent);
    }
    if let more @ 1.. = lines.len() - shown {
        field(screen, "", &format!("and {more} more lines"), indent);
    }
}
