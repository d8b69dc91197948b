//! Benchmarks as tables and as a page, from made-up figures.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/made_up.rs"]
mod made_up;

use made_up::made_up;
use report::{Length, Style};

#[test]
fn on_a_terminal() {
    let shown = report::text(&report::benchmark(&made_up()), 100, Style::Plain, Length::Folded);
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn on_a_page() {
    let page = report::benchmark_page(&made_up());
    assert!(page.contains("A CPU &lt;b&gt;") && !page.contains('\u{1b}'));
    // A line for each who was measured, a point for each number of threads and one beside its name.
    assert_eq!(page.matches("<path class=\"line line").count(), 4);
    assert_eq!(page.matches(" class=\"point line").count(), 2 * 3 + 2 + 4);
    assert!(page.contains("FAILED 6.00 ±4 %"), "{page}");
    assert!(page.contains("No small: the space has too many pages."));
    assert!(page.contains("pages in caches: 128 16,384"), "drift is told round by round");
}

/// Two contestants with one thread and with four; the second is absent with four.
fn many_threads() -> bench::MapThreads {
    let summary = |median: f64| bench::Summary {
        min: median,
        lower_quartile: median * 0.9,
        median,
        upper_quartile: median * 1.1,
        max: median,
    };
    let measured = |ns: f64, per_second: f64, over: f64| bench::MapMeasured {
        ns_per_pair: summary(ns),
        cpu_ns_per_pair: summary(ns),
        pairs_per_second: summary(per_second),
        over_baseline: Some(summary(over)),
        cpu_over_baseline: None,
        per_pair: bench::PerPair { table_entries: 2.0, ..bench::PerPair::default() },
        pairs_per_thread: 10,
        rounds: Vec::new(),
    };
    let entry = |name: &str, measured: Option<bench::MapMeasured>| bench::MapEntry {
        contestant: name.to_owned(),
        absent: measured.is_none().then(|| "no memory".to_owned()),
        measured,
    };
    let case = |threads, entries| bench::MapCase { threads, cpus: 2, entries };
    let named = |name: &str| bench::Named { name: name.to_owned(), what: format!("what {name} is") };
    bench::MapThreads {
        head: made_up().head,
        settings: bench::MapThreadsSettings { threads: vec![1, 4], ..bench::MapThreadsSettings::default() },
        baseline: "direct".to_owned(),
        contestants: ["direct", "slow<b>"].map(named).to_vec(),
        cases: vec![
            case(
                1,
                vec![
                    entry("direct", Some(measured(10.0, 1e8, 1.0))),
                    entry("slow<b>", Some(measured(500.0, 2e6, 50.0))),
                ],
            ),
            case(4, vec![entry("direct", Some(measured(20.0, 1e8, 1.0))), entry("slow<b>", None)]),
        ],
    }
}

#[test]
fn mappings_by_many_threads_in_the_unit_of_the_talk() {
    let run = many_threads();
    let shown = report::text(&report::map_threads(&run), 100, Style::Plain, Length::Folded);
    let row = |title: &str, name: &str| {
        let (_, table) = shown.split_once(title).unwrap();
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // 1e8 pairs a second of four threads: each makes its million in 0.04 s.
    assert_eq!(row("Seconds for a million", "direct"), ["direct", "0.010", "0.040"], "{shown}");
    assert_eq!(row("CPU nanoseconds per pair", "slow<b>")[..3], ["slow<b>", "500", "(45.0-55.0)"], "{shown}");
    assert!(shown.contains("no slow<b>: no memory"), "{shown}");
    let picture = report::svg_file(&report::map_threads_drawing(&run));
    assert_eq!(picture.matches("<path class=\"line line").count(), 2);
    assert_eq!(picture.matches("<circle class=\"point").count(), 3);
    assert!(picture.contains("slow&lt;b&gt;") && picture.contains("2 CPUs"), "{picture}");
    let page = report::html(&report::map_threads(&run), "a title", "iotoll");
    assert!(page.contains("<svg class=\"plot\"") && !page.contains("<b>"), "{page}");
}
