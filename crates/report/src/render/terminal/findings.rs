//! Findings on a terminal: first what is wrong and what to type, then each in full.
//!
//! Nothing stands there twice: causes and first commands are above the table of adapters, the rest of each finding is below
//! it, and what it was concluded from is shown on request.

use super::screen::Screen;
use crate::inspection::fold::{Folded, PREDICTIONS_EXPLAINED, evidence_lines, lines_with_sources};
use crate::page::ink::Ink;
use crate::page::quantity;
use crate::page::shorten::shorten;
use escape::shell::Command;
use escape::terminal::plain;
use host::diagnose::{Advice, Finding, OTHERWISE, Part};
use host::facts::LogProblem;

/// Findings in the list of actions, in a folded report.
const ACTIONS_MAX: usize = 40;
/// Findings shown in full, in a folded report.
const DETAILS_MAX: usize = 40;
/// Problems in the log that no finding is about, in a folded report.
const PROBLEMS_MAX: usize = 40;
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
/// Columns for a severity.
const SEVERITY_WIDTH: usize = 9;

/// Writes one entry for each finding: severity, cause and the first command of its fix.
pub(super) fn show_actions(screen: &mut Screen, folded: &[Folded<'_>]) {
    let shown = screen.length.shown(folded.len(), ACTIONS_MAX);
    let mut commands = 0;
    for (number, one) in (1..).zip(&folded[..shown]) {
        let finding = one.finding;
        let severity = format!("{:SEVERITY_WIDTH$}", finding.severity.to_string());
        let painted = screen.style.paint(Ink::Severity(finding.severity), &severity);
        let about = match one.addresses.len() {
            0 => String::new(),
            1 => format!("{}: ", one.first_address()),
            count => format!("{}: ", quantity::count(count, "adapter")),
        };
        let lead = format!("{}{painted}", lead(number));
        let width = number_width(number) + SEVERITY_WIDTH;
        screen.hanging(&lead, width, &format!("{about}{}", plain(&finding.what)), 0);
        match finding.fix.first_command() {
            Some(command) => {
                show_command(screen, &format!("[{}]", commands + 1), command, width - LABEL_WIDTH)
            }
            None => {
                let room = screen.width.saturating_sub(width + "fix: ".len());
                screen.prose(&format!("fix: {}", shorten(&plain(&finding.fix.to_string()), room)), width);
            }
        }
        commands += finding.fix.commands().len() + finding.verify.commands().len();
    }
    screen.entries_left_out(folded.len() - shown, "more finding", number_width(1));
}

/// Writes what is left to say of each finding: the fix in full, its risk and how to verify it, and if `explained` also what it
/// was concluded from and what it is predicted to gain.
pub(super) fn show_details(screen: &mut Screen, folded: &[Folded<'_>], explained: bool) {
    if folded.is_empty() {
        return;
    }
    screen.heading("Findings in full");
    let shown = screen.length.shown(folded.len(), DETAILS_MAX);
    let mut commands = 0;
    for (number, one) in (1..).zip(&folded[..shown]) {
        show_in_full(screen, number, one, &mut commands, explained);
    }
    screen.entries_left_out(folded.len() - shown, "more finding", 0);
    if explained && folded.iter().any(|one| !one.predicted.is_empty()) {
        screen.blank();
        screen.prose(PREDICTIONS_EXPLAINED, 0);
    }
}

/// Writes problems in the log that no finding is about.
pub(super) fn show_unjudged<'i>(screen: &mut Screen, problems: impl IntoIterator<Item = &'i LogProblem>) {
    let problems: Vec<&LogProblem> = problems.into_iter().collect();
    if problems.is_empty() {
        return;
    }
    screen.heading("Problems in the log, not judged");
    let shown = screen.length.shown(problems.len(), PROBLEMS_MAX);
    for problem in &problems[..shown] {
        let address = problem.address.map_or_else(String::new, |address| format!(" ({address})"));
        let times = quantity::count(usize::try_from(problem.messages).unwrap_or(usize::MAX), "message");
        screen.item(
            "- ",
            &format!("{}{address}, {times}: {}", problem.what, plain(&problem.at.to_string())),
            0,
        );
    }
    screen.entries_left_out(problems.len() - shown, "more problem", 0);
}

/// `  1. `
fn lead(number: usize) -> String {
    format!("{number:>3}. ")
}

/// Columns of [`lead`].
fn number_width(number: usize) -> usize {
    lead(number).len()
}

/// Writes a finding but for its cause and first command, which stand above.
fn show_in_full(screen: &mut Screen, number: usize, one: &Folded<'_>, commands: &mut usize, explained: bool) {
    let finding = one.finding;
    let head = format!("{}{} ", lead(number), finding.id);
    let painted = format!("{}{} ", lead(number), screen.style.paint(Ink::Strong, finding.id.word()));
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
    if one.differs {
        let first = one.first_address();
        screen.prose(
            &format!("(as written for {first}; the others have their own addresses and groups)"),
            indent,
        );
    }
    let above = finding.fix.first_command().map(|_| *commands + 1);
    show_advice(screen, "fix", &finding.fix, commands, above, indent);
    field(screen, "risk", &finding.risk, indent);
    show_advice(screen, "verify", &finding.verify, commands, None, indent);
    if !explained {
        return;
    }
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

/// Writes prose with `[1]` in place of its first command, then each command in a line of its own, but for the one that stands
/// `above`. Commands are not wrapped, so that nobody pastes half a command with an open quote.
fn show_advice(
    screen: &mut Screen,
    name: &str,
    advice: &Advice,
    commands: &mut usize,
    above: Option<usize>,
    indent: usize,
) {
    let mut prose = String::new();
    let mut below = Vec::new();
    for part in advice.parts() {
        match part {
            Part::Prose(words) => prose.push_str(words),
            Part::Otherwise => prose.push_str(OTHERWISE),
            Part::Command(one) | Part::Completing(one) => {
                *commands += 1;
                let mark = format!("[{commands}]");
                prose.push_str(if prose.is_empty() { "run " } else { "" });
                prose.push_str(&mark);
                below.extend((above != Some(*commands)).then_some((mark, one)));
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
