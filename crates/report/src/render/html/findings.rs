//! The findings of a host.

use super::facts::more;
use crate::inspection::fold::{
    Folded, PREDICTIONS_EXPLAINED, PredictionSource, evidence_lines, lines_with_sources,
};
use crate::page::quantity;
use crate::page::shorten::capitalised;
use crate::page::shorten::shorten;
use crate::render::svg;
use escape::terminal::plain;
use host::diagnose::{Advice, OTHERWISE, Part};
use host::facts::LogProblem;
use maud::{Markup, html};

/// Addresses shown beside a finding before they are folded away.
const ADDRESSES_MAX: usize = 8;

/// Findings in full.
const DETAILS_MAX: usize = 300;
/// Addresses that unfold on a click.
const ADDRESSES_LISTED_MAX: usize = 10_000;
/// Evidence lines that unfold on a click.
const EVIDENCE_MAX: usize = 100;
/// Columns of one text.
const TEXT_COLUMNS_MAX: usize = 8_000;

/// The section of findings: a list of one line each if there are many, then each in full.
pub(super) fn section(folded: &[Folded<'_>]) -> Markup {
    html! {
        section #findings aria-labelledby="findings-title" {
            h2 #findings-title { "Findings" }
            @if folded.is_empty() { p { "None: nothing that was read speaks against what is set up here." } }
            @if folded.len() > 3 { (overview(folded)) }
            @for (number, one) in (1..).zip(folded).take(DETAILS_MAX) { (detail(number, one)) }
            (more(folded.len(), DETAILS_MAX, "more finding"))
            @if folded.iter().any(|one| !one.predicted.is_empty()) { p.remark { (PREDICTIONS_EXPLAINED) } }
        }
    }
}

/// A list of one line for each finding, linked to the finding in full.
fn overview(folded: &[Folded<'_>]) -> Markup {
    html! {
        ol.overview {
            @for (number, one) in (1..).zip(folded).take(DETAILS_MAX) {
                li {
                    (severity(one))
                    a href=(format!("#finding-{number}")) { (one.finding.id.word()) }
                    " " code { (one.first_addresses(1)) }
                }
            }
        }
    }
}

/// The mark and the word of a severity.
fn severity(one: &Folded<'_>) -> Markup {
    html! {
        svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" {
            (svg::severity_mark(one.finding.severity))
        }
        span.severity-word { (one.finding.severity) }
    }
}

/// A finding in full: fix, risk, verification, prediction and evidence.
fn detail(number: usize, one: &Folded<'_>) -> Markup {
    let finding = one.finding;
    html! {
        article.finding.(finding.severity) #(format!("finding-{number}")) {
            h3 { (severity(one)) (finding.id.word()) }
            (addresses(one))
            p.what { (capitalised(&shorten(&plain(&finding.what), TEXT_COLUMNS_MAX))) "." }
            @if one.differs {
                p.remark { "As written for " code { (one.first_address()) } "; the others have their own addresses and groups." }
            }
            dl {
                (advice("Fix", &finding.fix))
                (field("Risk", &finding.risk))
                (advice("Verify", &finding.verify))
            }
            (proof(one))
        }
    }
}

/// What a finding was concluded from and what its fix would gain, folded.
fn proof(one: &Folded<'_>) -> Markup {
    let finding = one.finding;
    let lines = evidence_lines(finding);
    html! {
        details {
            summary { "Proof: " (quantity::count(lines.len(), "line")) @if finding.gain.is_some() || !one.predicted.is_empty() { ", and what the fix gains" } }
            dl {
                @if let Some(gain) = &finding.gain {
                    div { dt { "Gain" } dd { (plain(&gain.what)) br; span.absent { (plain(&gain.evidence.to_string())) } } }
                }
                (predicted("Toll", &one.tolls()))
                (predicted("Time", &one.times()))
                @if let Some(forecast) = &finding.forecast {
                    div { dt { "Model" } dd { (plain(&forecast.what)) br; span.absent { (plain(&forecast.basis)) } } }
                }
            }
            ul.evidence { @for line in lines.iter().take(EVIDENCE_MAX) { li { code { (shorten(line, TEXT_COLUMNS_MAX)) } } } }
            (more(lines.len(), EVIDENCE_MAX, "more line"))
        }
    }
}

/// Predictions, each source below the predictions from it.
fn predicted(name: &str, predicted: &[PredictionSource<'_>]) -> Markup {
    html! {
        @if !predicted.is_empty() {
            div {
                dt { (name) }
                dd {
                    @for (line, is_source) in lines_with_sources(predicted) {
                        @if is_source { span.absent { (plain(line)) } } @else { (plain(line)) }
                        br;
                    }
                }
            }
        }
    }
}

/// A field of a finding, such as its risk.
fn field(name: &str, text: &str) -> Markup {
    html! { div { dt { (name) } dd { (with_code(&shorten(&plain(text), TEXT_COLUMNS_MAX))) } } }
}

/// Prose and commands of a fix or of a verification.
fn advice(name: &str, advice: &Advice) -> Markup {
    html! {
        div {
            dt { (name) }
            dd {
                @for part in advice.parts() {
                    @match part {
                        Part::Prose(prose) => (with_code(&shorten(&plain(prose), TEXT_COLUMNS_MAX))),
                        Part::Command(command) | Part::Completing(command) => code { (plain(&command.to_string())) },
                        Part::Otherwise => (OTHERWISE),
                    }
                }
            }
        }
    }
}

/// A text in which backticks enclose code.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (with_options(part)) }
        }
    }
}

/// A text whose words are not broken at a leading hyphen: `--args=x` and `-vv` stay one word.
fn with_options(text: &str) -> Markup {
    html! {
        @for word in text.split_inclusive(' ') {
            @if word.starts_with('-') { span.argument { (word.trim_end()) } " " } @else { (word) }
        }
    }
}

/// The addresses that a finding holds for, folded if there are many.
fn addresses(one: &Folded<'_>) -> Markup {
    html! {
        @if one.addresses.len() <= ADDRESSES_MAX {
            p.addresses { code { (one.first_addresses(ADDRESSES_MAX)) } }
        } @else {
            details.addresses {
                summary { code { (one.first_addresses(1)) } }
                p { code { (one.first_addresses(ADDRESSES_LISTED_MAX)) } }
            }
        }
    }
}

/// Problems in the log that no finding is about.
pub(super) fn unjudged(problems: &[LogProblem]) -> Markup {
    html! {
        @if !problems.is_empty() {
            section #unjudged aria-labelledby="unjudged-title" {
                h2 #unjudged-title { "Problems in the log, not judged" }
                table {
                    thead { tr { th scope="col" { "problem" } th scope="col" { "adapter" } th.number scope="col" { "messages" } th scope="col" { "first message" } } }
                    tbody {
                        @for problem in problems.iter().take(DETAILS_MAX) {
                            tr {
                                td { (problem.what) }
                                td { @if let Some(address) = problem.address { code { (address) } } @else { span.absent { "–" } } }
                                td.number { (quantity::grouped(problem.messages)) }
                                td { code { (shorten(&plain(&problem.at.to_string()), TEXT_COLUMNS_MAX)) } }
                            }
                        }
                    }
                }
                (more(problems.len(), DETAILS_MAX, "more problem"))
            }
        }
    }
}
