//! Findings in the page.

use super::more;
use crate::fold::{Folded, Sourced, TOLL, evidence_lines, fold, with_sources};
use crate::wrap::shorten;
use crate::{quantity, svg};
use escape::terminal::plain;
use host::diagnose::{Advice, Finding, Part};
use maud::{Markup, html};

/// Addresses shown beside a finding before they are folded away.
const ADDRESSES_MAX: usize = 8;

/// Findings told.
const DETAILS_MAX: usize = 300;
/// Addresses that unfold.
const ADDRESSES_LISTED_MAX: usize = 10_000;
/// Evidence lines that unfold.
const EVIDENCE_MAX: usize = 100;
/// Of one text.
const TEXT_COLUMNS_MAX: usize = 8_000;

pub(super) fn section(findings: &[Finding]) -> Markup {
    let folded = fold(findings);
    html! {
        section #findings aria-labelledby="findings-title" {
            h2 #findings-title { "Findings" }
            @if folded.is_empty() { p { "None: nothing that was read speaks against what is set up here." } }
            @if folded.len() > 3 { (overview(&folded)) }
            @for (number, one) in (1..).zip(&folded).take(DETAILS_MAX) { (detail(number, one)) }
            (more(folded.len(), DETAILS_MAX, "more finding"))
            @if folded.iter().any(|one| !one.predicted.is_empty()) { p.remark { (TOLL) } }
        }
    }
}

fn overview(folded: &[Folded<'_>]) -> Markup {
    html! {
        ol.overview {
            @for (number, one) in (1..).zip(folded).take(DETAILS_MAX) {
                li {
                    (severity(one))
                    a href=(format!("#finding-{number}")) { (one.finding.id.word()) }
                    " " code { (one.short(1)) }
                }
            }
        }
    }
}

fn severity(one: &Folded<'_>) -> Markup {
    html! {
        svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" {
            (svg::severity_mark(one.finding.severity))
        }
        span.severity-word { (one.finding.severity) }
    }
}

fn detail(number: usize, one: &Folded<'_>) -> Markup {
    let finding = one.finding;
    html! {
        article.finding.(finding.severity) #(format!("finding-{number}")) {
            h3 { (severity(one)) (finding.id.word()) }
            (addresses(one))
            p.what { (super::capitalised(&shorten(&plain(&finding.what), TEXT_COLUMNS_MAX))) "." }
            @if one.differs {
                p.remark { "As told for " code { (one.short_first()) } "; the others with addresses and groups of their own." }
            }
            dl {
                (advice("Fix", &finding.fix))
                (field("Risk", &finding.risk))
                (advice("Verify", &finding.verify))
                @if let Some(gain) = &finding.gain {
                    div { dt { "Gain" } dd { (plain(&gain.what)) br; span.absent { (plain(&gain.evidence.to_string())) } } }
                }
                (predicted("Toll", &one.tolls()))
                (predicted("Time", &one.times()))
                @if let Some(forecast) = &finding.forecast {
                    div { dt { "Model" } dd { (plain(&forecast.what)) br; span.absent { (plain(&forecast.basis)) } } }
                }
            }
            (evidence(finding))
        }
    }
}

fn predicted(name: &str, predicted: &[Sourced<'_>]) -> Markup {
    html! {
        @if !predicted.is_empty() {
            div {
                dt { (name) }
                dd {
                    @for (line, is_source) in with_sources(predicted) {
                        @if is_source { span.absent { (plain(line)) } } @else { (plain(line)) }
                        br;
                    }
                }
            }
        }
    }
}

fn field(name: &str, text: &str) -> Markup {
    html! { div { dt { (name) } dd { (commands(&shorten(&plain(text), TEXT_COLUMNS_MAX))) } } }
}

fn advice(name: &str, advice: &Advice) -> Markup {
    html! {
        div {
            dt { (name) }
            dd {
                @for part in advice.parts() {
                    @match part {
                        Part::Prose(prose) => (commands(&shorten(&plain(prose), TEXT_COLUMNS_MAX))),
                        Part::Command(command) => code { (plain(&command.to_string())) },
                    }
                }
            }
        }
    }
}

/// What stands between backticks is typed or printed literally.
fn commands(text: &str) -> Markup {
    html! {
        @for (index, part) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (part) } } @else { (arguments(part)) }
        }
    }
}

/// Words that begin with a hyphen are not broken at it: `--args=x` and `-vv` stay one word.
fn arguments(text: &str) -> Markup {
    html! {
        @for word in text.split_inclusive(' ') {
            @if word.starts_with('-') { span.argument { (word.trim_end()) } " " } @else { (word) }
        }
    }
}

fn addresses(one: &Folded<'_>) -> Markup {
    html! {
        @if one.addresses.len() <= ADDRESSES_MAX {
            p.addresses { code { (one.short(ADDRESSES_MAX)) } }
        } @else {
            details.addresses {
                summary { code { (one.short(1)) } }
                p { code { (one.short(ADDRESSES_LISTED_MAX)) } }
            }
        }
    }
}

fn evidence(finding: &Finding) -> Markup {
    let lines = evidence_lines(finding);
    html! {
        @if !lines.is_empty() {
            details {
                summary { "Evidence: " (quantity::count(lines.len(), "line")) }
                ul.evidence { @for line in lines.iter().take(EVIDENCE_MAX) { li { code { (shorten(line, TEXT_COLUMNS_MAX)) } } } }
                (more(lines.len(), EVIDENCE_MAX, "more line"))
            }
        }
    }
}
