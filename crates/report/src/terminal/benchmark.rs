//! A benchmark on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::bench_text::{self, DETAILS};
use crate::fact::Fact;
use crate::quantity;
use crate::style::{Ink, Style};
use bench::{Benchmark, Case, Entry, Measured, Scenario};
use escape::terminal::plain;

/// A benchmark: what was measured on, then each scenario with all numbers of threads, and one of these in detail.
pub fn benchmark(benchmark: &Benchmark, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    let who = quantity::count(benchmark.contestants.len(), "allocator");
    page.title(&format!("{who} of I/O virtual addresses, against {}", plain(&benchmark.baseline)));
    page.warnings(&benchmark.head.warnings);
    for (name, value) in bench_text::facts(benchmark) {
        page.fact(&Fact::known(name, &value), 9);
    }
    page.heading("Who takes part");
    let widest = benchmark.contestants.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
    for one in &benchmark.contestants {
        page.fact(&Fact::known(&plain(&one.name), &one.what), widest + 2);
    }
    page.blank();
    page.prose(&bench_text::legend(benchmark), 0);
    for scenario in &benchmark.settings.scenarios {
        self::scenario(&mut page, *scenario, &bench_text::of_scenario(benchmark, *scenario));
    }
    page.done()
}

/// A benchmark of one scenario as a part of something larger: its table alone, and what casts doubt on it.
pub fn benchmark_brief(benchmark: &Benchmark, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.heading("Allocators of I/O addresses, measured on this machine for a moment");
    let cases: Vec<&Case> = benchmark.cases.iter().collect();
    grid(&cases).show(&mut page);
    page.prose(&bench_text::legend(benchmark), 2);
    page.warnings(&benchmark.head.warnings);
    page.prose("More, and all scenarios: iotoll bench iova", 2);
    page.done()
}

fn scenario(page: &mut Page, scenario: Scenario, cases: &[&Case]) {
    let Some(first) = cases.first() else {
        page.heading(&format!("{scenario}: not measured, it takes an even number of threads"));
        return;
    };
    page.heading(&format!("{scenario}: {}", first.what));
    if scenario.sizes() != bench::Sizes::One {
        page.prose(&first.sizes, 2);
    }
    grid(cases).show(page);
    for (who, why) in bench_text::absent(cases) {
        page.item("- ", &format!("no {}: {}", plain(who), plain(why)), 2);
    }
    for case in cases {
        if let Some(queue) = case.queue_ns_per_pair {
            let threads = bench_text::threads(case.threads);
            page.prose(&format!("{threads}: {} of it is the queue's", bench_text::time(queue)), 2);
        }
    }
    let Some(case) = bench_text::detailed(cases) else { return };
    if scenario == Scenario::Drift {
        drift(page, case);
    }
    page.blank();
    page.prose(&format!("In detail, {}:", bench_text::threads(case.threads)), 2);
    details(case).show(page);
}

/// Contestants and threads.
fn grid(cases: &[&Case]) -> Grid {
    let names = cases.first().map(|case| case.entries.iter()).into_iter().flatten();
    let row = |(index, entry): (usize, &Entry)| {
        let cell =
            |case: &&Case| case.entries[index].measured.as_ref().map(bench_text::pair).unwrap_or_default();
        Row { name: plain(&entry.contestant), ink: None, cells: cases.iter().map(cell).collect() }
    };
    Grid {
        names: "ns per pair",
        titles: cases.iter().map(|case| bench_text::threads(case.threads)).collect(),
        rows: names.enumerate().map(row).collect(),
    }
}

fn measured(case: &Case) -> impl Iterator<Item = (&Entry, &Measured)> {
    case.entries.iter().filter_map(|entry| Some((entry, entry.measured.as_ref()?)))
}

fn details(case: &Case) -> Grid {
    let row = |(entry, measured): (&Entry, &Measured)| Row {
        name: plain(&entry.contestant),
        ink: (measured.failed > 0).then_some(Ink::Severity(host::diagnose::Severity::Critical)),
        cells: bench_text::details(measured),
    };
    Grid {
        names: "allocator",
        titles: DETAILS.map(str::to_owned).to_vec(),
        rows: measured(case).map(row).collect(),
    }
}

fn drift(page: &mut Page, case: &Case) {
    page.prose(&format!("By round, {}:", bench_text::threads(case.threads)), 2);
    for (entry, measured) in measured(case) {
        let (times, cached) = bench_text::by_round(case, measured);
        let name = plain(&entry.contestant);
        page.item("- ", &format!("{name}, ns per pair: {}", times.join(" ")), 2);
        if cached.iter().any(|pages| pages != "0") {
            page.item("- ", &format!("{name}, pages in caches: {}", cached.join(" ")), 2);
        }
    }
}
