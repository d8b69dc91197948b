//! The page of a benchmark of IOVA allocators.

use super::words::{self, DETAILS};
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::quantity::{count, time};
use crate::page::table::{Row, Table};
use bench::{Benchmark, Case, Entry, Measured, Scenario};
use escape::terminal::plain;

/// The machine and the settings, then for each scenario a table by number of threads, and one number of threads in detail.
pub fn benchmark(benchmark: &Benchmark) -> Page {
    let allocators = count(benchmark.contestants.len(), "allocator");
    let baseline = plain(&benchmark.baseline);
    let mut page = Page::titled(format!("{allocators} of I/O virtual addresses, against {baseline}"));
    page.warnings(&benchmark.head.warnings);
    page.facts(words::facts(benchmark).iter().map(|(name, value)| Fact::known(name, value)), 9);
    page.heading("Allocators");
    let widest = benchmark.contestants.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    page.facts(benchmark.contestants.iter().map(|one| Fact::known(&one.name, &one.what)), widest + 2);
    page.blank();
    page.prose(words::legend(benchmark), 0);
    for scenario in &benchmark.settings.scenarios {
        add_scenario(&mut page, *scenario, &words::cases_of(benchmark, *scenario));
    }
    page
}

/// A short benchmark of one scenario, as a part of a longer report: its table and its warnings.
pub fn benchmark_brief(benchmark: &Benchmark) -> Page {
    let mut page = Page::default();
    page.heading("Allocators of I/O addresses, measured on this machine for a moment");
    let cases: Vec<&Case> = benchmark.cases.iter().collect();
    page.table(times(&cases));
    page.prose(words::legend(benchmark), 2);
    page.warnings(&benchmark.head.warnings);
    page.prose("More, and all scenarios: iotoll bench iova", 2);
    page
}

/// Adds the results of a scenario: by number of threads, then one of these in detail.
fn add_scenario(page: &mut Page, scenario: Scenario, cases: &[&Case]) {
    let Some(first) = cases.first() else {
        page.heading(format!("{scenario}: not measured, because it needs an even number of threads"));
        return;
    };
    page.heading(format!("{scenario}: {}", first.what));
    if scenario.sizes() != bench::Sizes::One {
        page.prose(&first.sizes, 2);
    }
    page.table(times(cases));
    for (contestant, reason) in words::not_measured(cases) {
        page.bullet(format!("no {}: {}", plain(contestant), plain(reason)));
    }
    for case in cases {
        if let Some(queue) = case.queue_ns_per_pair {
            page.prose(format!("{}: {} of it is the queue's", words::threads(case.threads), time(queue)), 2);
        }
    }
    let Some(case) = words::case_to_detail(cases) else { return };
    if scenario == Scenario::Drift {
        add_rounds(page, case);
    }
    page.blank();
    page.prose(format!("In detail, {}:", words::threads(case.threads)), 2);
    page.table(details(case));
}

/// Time of an allocation and its free, by allocator and number of threads.
fn times(cases: &[&Case]) -> Table {
    let entries = cases.first().map(|case| case.entries.iter()).into_iter().flatten();
    let row = |(index, entry): (usize, &Entry)| {
        let cell =
            |case: &&Case| case.entries[index].measured.as_ref().map(words::pair_time).unwrap_or_default();
        Row { name: plain(&entry.contestant), ink: None, cells: cases.iter().map(cell).collect() }
    };
    Table {
        names: "ns per pair",
        wraps_names: false,
        titles: cases.iter().map(|case| words::threads(case.threads)).collect(),
        rows: entries.enumerate().map(row).collect(),
    }
}

/// The allocators that were measured, with their results.
fn measured(case: &Case) -> impl Iterator<Item = (&Entry, &Measured)> {
    case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)))
}

/// Rates, latencies and memory of each allocator, at one number of threads.
fn details(case: &Case) -> Table {
    let row = |(entry, measured): (&Entry, &Measured)| Row {
        name: plain(&entry.contestant),
        ink: (measured.failed > 0).then_some(Ink::FAILURE),
        cells: words::details(measured),
    };
    Table {
        names: "allocator",
        wraps_names: false,
        titles: DETAILS.map(str::to_owned).to_vec(),
        rows: measured(case).map(row).collect(),
    }
}

/// Adds how times and caches change from round to round.
fn add_rounds(page: &mut Page, case: &Case) {
    page.prose(format!("By round, {}:", words::threads(case.threads)), 2);
    for (entry, measured) in measured(case) {
        let (times, cached) = words::by_round(case, measured);
        let name = plain(&entry.contestant);
        page.bullet(format!("{name}, ns per pair: {}", times.join(" ")));
        if cached.iter().any(|pages| pages != "0") {
            page.bullet(format!("{name}, pages in caches: {}", cached.join(" ")));
        }
    }
}
