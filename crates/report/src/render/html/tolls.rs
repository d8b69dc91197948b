//! Toll sheets as one self-contained page: bars of what each DMA path adds to an I/O.

mod chart;
mod numbers;
mod origin;
mod overview;
mod stages;

use super::document::document;
use crate::page::quantity;
use crate::page::shorten::capitalised;
use crate::sheets::driver::{self, Driver, Group};
use crate::sheets::platform::{SheetLine, prices_of};
use crate::sheets::words::price_words;
use escape::terminal::plain;
use maud::{Markup, html};
use std::collections::BTreeSet;
use toll::{Event, PriceList, TollSheet};

const STYLE: &str = include_str!("tolls/style.css");

/// Said where no sheet is compared with another.
const NO_BASE: &str = "The base of no sheet (its preset without translation, on the same machine and kernel) is among the sheets: what \
    translation costs is unknown.";

/// The page of these toll sheets, with what each DMA path adds in time at the prices of its architecture, if there are any; `made_by`
/// names the program and its version.
pub fn toll_page(sheets: &[TollSheet], prices: &[PriceList], made_by: &str) -> String {
    let drivers = driver::drivers(sheets);
    let body = html! {
        header {
            p.kicker { "iotoll · what each I/O costs, counted on " (quantity::count(sheets.len(), "toll sheet")) }
            h1 { (headline(sheets, &drivers)) }
            (contents(&drivers))
        }
        main {
            (overview::section(sheets, &drivers))
            (reading_help(sheets, &drivers))
            @for (number, driver) in (1..).zip(&drivers) { (section(number, driver, prices)) }
            (origin::footer(sheets, made_by))
        }
    };
    document("toll sheets", STYLE, &body)
}

/// The page's title: the DMA path that certainly adds most instructions, or that none certainly adds any.
fn headline(sheets: &[TollSheet], drivers: &[Driver]) -> String {
    let lines = drivers.iter().flat_map(Driver::lines);
    let compared = lines.clone().any(|line| line.added_share().is_some());
    let dearest = lines
        .filter_map(|line| Some((line, line.certainly_added_share()?, line.added_share()?)))
        .max_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
    match dearest {
        Some((line, _, added)) => format!(
            "{} adds {} to an I/O's instructions: {} on {}.",
            capitalised(line.sheet.dma_path.word()),
            quantity::signed_percent(added).trim_start_matches('+'),
            plain(&line.toll.workload),
            plain(&line.sheet.preset)
        ),
        None if compared => "No DMA path adds more to an I/O than its boots vary by.".to_owned(),
        None => {
            let dma_paths: BTreeSet<_> = sheets.iter().map(|sheet| sheet.dma_path).collect();
            match dma_paths.first() {
                Some(dma_path) if dma_paths.len() == 1 => format!("What each I/O costs on {dma_path}."),
                Some(_) => format!("What each I/O costs on {} DMA paths.", dma_paths.len()),
                None => "There is no toll sheet.".to_owned(),
            }
        }
    }
}

/// Links to the parts of the page.
fn contents(drivers: &[Driver]) -> Markup {
    html! {
        nav aria-label="Contents" {
            @if overview::has_comparison(drivers) { a href="#overview" { "What each DMA path adds" } }
            @for (number, driver) in (1..).zip(drivers) {
                a href=(format!("#family-{number}")) { (capitalised(&driver.title())) }
            }
            a href="#origin" { "Evidence" }
        }
    }
}

/// Explains the bars and their colours.
fn reading_help(sheets: &[TollSheet], drivers: &[Driver]) -> Markup {
    let has_string_iterations = |line: &SheetLine| line.toll.events.contains_key(&Event::StringIterations);
    let any_string_iterations = drivers.iter().flat_map(Driver::lines).any(has_string_iterations);
    html! {
        section #reading aria-labelledby="reading-title" {
            h2 #reading-title { "Where the instructions go" }
            p {
                "A bar is the instructions of one I/O, those of the median window, by stage. Grey is what an I/O needs \
                 on any DMA path; colour is mapping and translation. The dashed line is where the untranslated DMA path \
                 of the same machine and kernel ends. Bars of one chart have one scale."
            }
            p.remark { "Events are those of the median window; ~ is the mean of all windows, where it is another." }
            @if any_string_iterations {
                p.remark {
                    "A string instruction of x86 counts as one; its repetitions, of 1 to 8 bytes each, are a column of \
                     their own. Bounce copies show there: the sheets count no bounced bytes."
                }
            }
        }
        (stages::legend(sheets))
    }
}

/// The section of a driver's workloads.
fn section(number: usize, driver: &Driver, prices: &[PriceList]) -> Markup {
    let id = format!("family-{number}");
    let title = format!("{id}-title");
    html! {
        section #(id) aria-labelledby=(title) {
            h2 #(title) { (capitalised(&driver.title())) }
            @for group in &driver.groups { (machine(group, prices)) }
        }
    }
}

/// The charts of one machine and kernel; all but the first are folded.
fn machine(group: &Group, prices: &[PriceList]) -> Markup {
    let Some((first, others)) = group.charts.split_first() else { return html! {} };
    let prices = first.lines.first().and_then(|line| prices_of(line.sheet, prices));
    html! {
        h3 { (group.platform) }
        @if group.charts.iter().all(|chart| chart.lines.iter().all(|line| line.base.is_none())) {
            p.remark { (NO_BASE) }
        }
        @if let Some(list) = prices { p.remark { (price_words("over the base", list, &chart::EVENTS)) } }
        (chart::chart(first, prices))
        @for other in others {
            details {
                summary { b { (other.workload) } (chart::largest_share(other)) }
                (chart::chart(other, prices))
            }
        }
    }
}
