//! Toll sheets as one self-contained page: what each DMA path adds to an I/O, drawn.

mod chart;
mod family;
mod numbers;
mod origin;
mod overview;
mod stages;

use super::document::document;
use crate::platform::NO_UNTRANSLATED;
use crate::quantity;
use escape::terminal::plain;
use family::{Family, Group};
use maud::{Markup, html};
use std::collections::BTreeSet;
use toll::{Event, TollSheet};

const STYLE: &str = include_str!("tolls/style.css");

/// The page of these toll sheets; `made_by` names the program and its version.
pub fn toll_page(sheets: &[TollSheet], made_by: &str) -> String {
    let families = family::families(sheets);
    let body = html! {
        header {
            p.kicker { "iotoll · what each I/O pays, counted on " (quantity::count(sheets.len(), "toll sheet")) }
            h1 { (headline(sheets, &families)) }
            (contents(&families))
        }
        main {
            (overview::section(sheets, &families))
            (reading(sheets, &families))
            @for (number, family) in (1..).zip(&families) { (section(number, family)) }
            (origin::footer(sheets, made_by))
        }
    };
    document("toll sheets", STYLE, &body)
}

/// The DMA path that adds most for certain.
fn headline(sheets: &[TollSheet], families: &[Family]) -> String {
    let lines = families.iter().flat_map(Family::lines);
    let compared = lines.clone().any(|line| line.added().is_some());
    let dearest = lines
        .filter_map(|line| Some((line, line.surely_added()?, line.added()?)))
        .max_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    match dearest {
        Some((line, _, added)) => format!(
            "{} adds {} to an I/O's instructions: {} on {}.",
            super::capitalised(line.sheet.dma_path.word()),
            quantity::signed_percent(added).trim_start_matches('+'),
            plain(&line.toll.workload),
            plain(&line.sheet.preset)
        ),
        None if compared => "No DMA path adds more to an I/O than its windows vary by.".to_owned(),
        None => {
            let dma_paths: BTreeSet<_> = sheets.iter().map(|sheet| sheet.dma_path).collect();
            match dma_paths.first() {
                Some(dma_path) if dma_paths.len() == 1 => format!("What each I/O pays on {dma_path}."),
                Some(_) => format!("What each I/O pays on {} DMA paths.", dma_paths.len()),
                None => "There is no toll sheet.".to_owned(),
            }
        }
    }
}

fn contents(families: &[Family]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @if overview::has_any(families) { a href="#overview" { "What each DMA path adds" } }
            @for (number, family) in (1..).zip(families) {
                a href=(format!("#family-{number}")) { (super::capitalised(&family.title())) }
            }
            a href="#origin" { "Evidence" }
        }
    }
}

/// What the pictures mean, and their colours.
fn reading(sheets: &[TollSheet], families: &[Family]) -> Markup {
    let repeats = |line: &crate::platform::Line| line.toll.events.contains_key(&Event::StringIterations);
    let strings = families.iter().flat_map(Family::lines).any(repeats);
    html! {
        section #reading aria-labelledby="reading-title" {
            h2 #reading-title { "Where the instructions go" }
            p {
                "A bar is the instructions of one I/O, those of the median window, by stage. Grey is what an I/O needs \
                 on any DMA path; colour is mapping and translation. The dashed line is where the untranslated DMA path \
                 of the same machine and kernel ends. Bars of one chart have one scale."
            }
            p.remark { "Events are those of the median window; ~ is the mean of all windows, where it is another." }
            @if strings {
                p.remark {
                    "A string instruction of x86 counts as one; its repetitions, of 1 to 8 bytes each, are a column of \
                     their own. Bounce copies show there: the sheets count no bounced bytes."
                }
            }
        }
        (stages::legend(sheets))
    }
}

fn section(number: usize, family: &Family) -> Markup {
    let id = format!("family-{number}");
    let title = format!("{id}-title");
    html! {
        section #(id) aria-labelledby=(title) {
            h2 #(title) { (super::capitalised(&family.title())) }
            @for group in &family.groups { (machine(group)) }
        }
    }
}

fn machine(group: &Group) -> Markup {
    let Some((first, others)) = group.charts.split_first() else { return html! {} };
    html! {
        h3 { (group.platform) }
        @if group.charts.iter().all(|chart| chart.lines.iter().all(|line| line.base.is_none())) {
            p.remark { (NO_UNTRANSLATED) }
        }
        (chart::chart(first))
        @for other in others {
            details {
                summary { b { (other.workload) } (chart::glance(other)) }
                (chart::chart(other))
            }
        }
    }
}
