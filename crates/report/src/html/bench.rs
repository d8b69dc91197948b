//! A benchmark as a page: time against threads for each scenario.

use super::document::document;
use crate::bench_text::{self, DETAILS};
use crate::plot::{Line, Plot};
use crate::quantity;
use bench::{Benchmark, Case, Scenario};
use escape::terminal::plain;
use maud::{Markup, html};

pub(super) const STYLE: &str = include_str!("bench.css");

/// The page of a benchmark.
pub fn benchmark_page(benchmark: &Benchmark) -> String {
    document("allocators of I/O virtual addresses", STYLE, &body(benchmark))
}

/// A benchmark of one scenario as a part of something larger.
pub(super) fn brief(benchmark: &Benchmark) -> Markup {
    let cases: Vec<&Case> = benchmark.cases.iter().collect();
    let Some(first) = cases.first() else { return html! {} };
    html! {
        section #allocators aria-labelledby="allocators-title" {
            h2 #allocators-title { "Allocators of I/O addresses" }
            p { "Measured on this machine for a moment; all scenarios: " code { "iotoll bench iova" } ". Each thread: " (first.what) "." }
            @if !benchmark.head.warnings.is_empty() {
                ul.warnings { @for warning in &benchmark.head.warnings { li { (plain(warning)) } } }
            }
            @if cases.len() > 1 { div.scroll { (plot(first.scenario, &cases)) } }
            (times(&cases))
            p.remark { (bench_text::legend(benchmark)) }
        }
    }
}

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
                    ul.warnings { @for warning in &benchmark.head.warnings { li { (plain(warning)) } } }
                }
                h2 { "How it was measured" }
                dl { @for (name, value) in bench_text::facts(benchmark) { div { dt { (name) } dd { (value) } } } }
                h2 { "Who takes part" }
                dl { @for one in &benchmark.contestants { div { dt { (plain(&one.name)) } dd { (plain(&one.what)) } } } }
                p.remark { (bench_text::legend(benchmark)) }
            }
            @for scenario in &benchmark.settings.scenarios {
                (self::scenario(*scenario, &bench_text::of_scenario(benchmark, *scenario)))
            }
        }
    }
}

fn scenario(scenario: Scenario, cases: &[&Case]) -> Markup {
    let Some(first) = cases.first() else { return html! {} };
    html! {
        section id=(scenario) {
            h2 { (scenario) }
            p { (first.what) }
            @if scenario.sizes() != bench::Sizes::One { p.remark { (first.sizes) } }
            div.scroll { (plot(scenario, cases)) }
            (times(cases))
            @for (who, why) in bench_text::absent(cases) { p.remark { "No " (plain(who)) ": " (plain(why)) "." } }
            @if let Some(case) = bench_text::detailed(cases) {
                (details(case))
                @if scenario == Scenario::Drift { (by_round(case)) }
            }
        }
    }
}

/// Time of a million pairs in all, against threads.
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
    Plot { name: &name, x_title: "threads", y_title: "ms for a million pairs in all", lines: &lines, mark }
        .draw()
}

fn times(cases: &[&Case]) -> Markup {
    let names = cases.first().map(|case| case.entries.iter()).into_iter().flatten();
    html! {
        div.scroll { table {
            caption { "Nanoseconds per pair" }
            thead { tr {
                th scope="col" { "allocator" }
                @for case in cases { th.number scope="col" { (bench_text::threads(case.threads)) } }
            } }
            tbody {
                @for (index, entry) in names.enumerate() {
                    tr {
                        th scope="row" { (plain(&entry.contestant)) }
                        @for case in cases {
                            td.number { (case.entries[index].measured.as_ref().map_or_else(|| "-".to_owned(), bench_text::pair)) }
                        }
                    }
                }
                @if cases.iter().any(|case| case.queue_ns_per_pair.is_some()) {
                    tr {
                        th scope="row" { "the queue alone" }
                        @for case in cases { td.number { (case.queue_ns_per_pair.map_or_else(|| "-".to_owned(), bench_text::figure)) } }
                    }
                }
            }
        } }
    }
}

fn by_round(case: &Case) -> Markup {
    let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
    html! {
        dl {
            @for (entry, measured) in measured {
                @let (times, cached) = bench_text::by_round(case, measured);
                div { dt { (plain(&entry.contestant)) } dd { "ns per pair by round: " (times.join(" ")) } }
                @if cached.iter().any(|pages| pages != "0") {
                    div { dt {} dd { "pages in caches: " (cached.join(" ")) } }
                }
            }
        }
    }
}

fn details(case: &Case) -> Markup {
    let measured = case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)));
    html! {
        div.scroll { table {
            caption { "In detail, " (bench_text::threads(case.threads)) }
            thead { tr { th scope="col" { "allocator" } @for title in DETAILS { th.number scope="col" { (title) } } } }
            tbody {
                @for (entry, measured) in measured {
                    tr {
                        th scope="row" { (plain(&entry.contestant)) }
                        @for text in bench_text::details(measured) {
                            td.number { (if text.is_empty() { "-".to_owned() } else { text }) }
                        }
                    }
                }
            }
        } }
    }
}
