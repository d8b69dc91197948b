//! A benchmark of IOVA allocators as an HTML document: time against threads for each scenario.

use super::document::document;
use super::page::warnings;
use crate::benchmarks::words::{self, DETAILS};
use crate::page::drawing::{Drawing, Kind, Line, Plot};
use crate::page::quantity::{self, figure};
use crate::render::svg;
use bench::{Benchmark, Case, Scenario};
use escape::terminal::plain;
use maud::{Markup, html};

/// The page of a benchmark of IOVA allocators.
pub fn benchmark_page(benchmark: &Benchmark) -> String {
    document("allocators of I/O virtual addresses", svg::STYLE, &body(benchmark))
}

/// A short benchmark of one scenario, as a section of a host's page.
pub(super) fn brief(benchmark: &Benchmark) -> Markup {
    let cases: Vec<&Case> = benchmark.cases.iter().collect();
    let Some(first) = cases.first() else { return html! {} };
    html! {
        section #allocators aria-labelledby="allocators-title" {
            h2 #allocators-title { "Allocators of I/O addresses" }
            p { "Measured on this machine for a moment; all scenarios: " code { "iotoll bench iova" } ". Each thread: " (first.what) "." }
            @if !benchmark.head.warnings.is_empty() {
                (warnings(benchmark.head.warnings.iter()))
            }
            @if cases.len() > 1 { div.scroll { (plot(first.scenario, &cases)) } }
            (times(&cases))
            p.remark { (words::legend(benchmark)) }
        }
    }
}

/// The page from its header on.
fn body(benchmark: &Benchmark) -> Markup {
    let who = quantity::count(benchmark.contestants.len(), "allocator");
    html! {
        header {
            p.kicker { "iotoll · bench iova" }
            h1 { (who) " of I/O virtual addresses." }
            nav aria-label="Contents" {
                @for scenario in &benchmark.settings.scenarios { a href=(format!("#{scenario}")) { (scenario) } }
            }
        }
        main {
            section {
                @if !benchmark.head.warnings.is_empty() {
                    h2 { "Doubts" }
                    (warnings(benchmark.head.warnings.iter()))
                }
                h2 { "How it was measured" }
                dl { @for (name, value) in words::facts(benchmark) { div { dt { (name) } dd { (value) } } } }
                h2 { "Allocators" }
                dl { @for one in &benchmark.contestants { div { dt { (plain(&one.name)) } dd { (plain(&one.what)) } } } }
                p.remark { (words::legend(benchmark)) }
            }
            @for scenario in &benchmark.settings.scenarios {
                (self::scenario(*scenario, &words::cases_of(benchmark, *scenario)))
            }
        }
    }
}

/// The section of a scenario: plot, times and details.
fn scenario(scenario: Scenario, cases: &[&Case]) -> Markup {
    let Some(first) = cases.first() else { return html! {} };
    html! {
        section id=(scenario) {
            h2 { (scenario) }
            p { (first.what) }
            @if scenario.sizes() != bench::Sizes::One { p.remark { (first.sizes) } }
            div.scroll { (plot(scenario, cases)) }
            (times(cases))
            @for (who, why) in words::not_measured(cases) { p.remark { "No " (plain(who)) ": " (plain(why)) "." } }
            @if let Some(case) = words::case_to_detail(cases) {
                (details(case))
                @if scenario == Scenario::Drift { (by_round(case)) }
            }
        }
    }
}

/// The plot of the time in which all threads together do a million allocations and frees, in milliseconds, against the number of threads.
fn plot(scenario: Scenario, cases: &[&Case]) -> Markup {
    let names = cases.first().map(|case| case.entries.iter()).into_iter().flatten();
    let line = |(index, entry): (usize, &bench::Entry)| {
        let point = |case: &&Case| {
            let measured = case.entries[index].measured.as_ref()?;
            Some((case.threads as f64, 1e9 / measured.pairs_per_second.median))
        };
        Line { name: plain(&entry.contestant), points: cases.iter().filter_map(point).collect() }
    };
    let lines: Vec<Line> = names.enumerate().map(line).filter(|line| !line.points.is_empty()).collect();
    let mark = cases.first().map(|case| (case.cpus as f64, quantity::count(case.cpus, "CPU")));
    let name = format!("{scenario}: milliseconds of a million pairs against threads");
    svg::diagram(&Drawing(Kind::Plot(Plot {
        name,
        x_title: "threads".to_owned(),
        y_title: "ms for a million pairs in all".to_owned(),
        lines,
        mark,
    })))
}

/// Nanoseconds of an allocation and its free, by allocator and number of threads.
fn times(cases: &[&Case]) -> Markup {
    let names = cases.first().map(|case| case.entries.iter()).into_iter().flatten();
    html! {
        div.scroll { table {
            caption { "Nanoseconds per pair" }
            thead { tr {
                th scope="col" { "allocator" }
                @for case in cases { th.number scope="col" { (words::threads(case.threads)) } }
            } }
            tbody {
                @for (index, entry) in names.enumerate() {
                    tr {
                        th scope="row" { (plain(&entry.contestant)) }
                        @for case in cases {
                            td.number { (case.entries[index].measured.as_ref().map_or_else(|| "-".to_owned(), words::pair_time)) }
                        }
                    }
                }
                @if cases.iter().any(|case| case.queue_ns_per_pair.is_some()) {
                    tr {
                        th scope="row" { "the queue alone" }
                        @for case in cases { td.number { (case.queue_ns_per_pair.map_or_else(|| "-".to_owned(), figure)) } }
                    }
                }
            }
        } }
    }
}

/// How times and caches change from round to round.
fn by_round(case: &Case) -> Markup {
    let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
    html! {
        dl {
            @for (entry, measured) in measured {
                @let (times, cached) = words::by_round(case, measured);
                div { dt { (plain(&entry.contestant)) } dd { "ns per pair by round: " (times.join(" ")) } }
                @if cached.iter().any(|pages| pages != "0") {
                    div { dt {} dd { "pages in caches: " (cached.join(" ")) } }
                }
            }
        }
    }
}

/// Rates, latencies and memory of each allocator, at one number of threads.
fn details(case: &Case) -> Markup {
    let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
    html! {
        div.scroll { table {
            caption { "In detail, " (words::threads(case.threads)) }
            thead { tr { th scope="col" { "allocator" } @for title in DETAILS { th.number scope="col" { (title) } } } }
            tbody {
                @for (entry, measured) in measured {
                    tr {
                        th scope="row" { (plain(&entry.contestant)) }
                        @for text in words::details(measured) {
                            td.number { (if text.is_empty() { "-".to_owned() } else { text }) }
                        }
                    }
                }
            }
        } }
    }
}
