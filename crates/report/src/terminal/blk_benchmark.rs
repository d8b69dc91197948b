//! Reads of a disk by each way, on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::style::Style;
use bench::{BlkBenchmark, BlkCell, BlkRow};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 22;

/// Of the reads that were timed.
type Percentile = fn(&bench::Latency) -> Option<u64>;

/// Each way at each depth: reads in a second, in a second of a CPU, and how long they took.
pub fn blk_benchmark(benchmark: &BlkBenchmark, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&plain(&format!(
        "Random reads of {} bytes from {}",
        benchmark.settings.bytes, benchmark.disk
    )));
    page.warnings(&benchmark.head.warnings);
    page.fact(&Fact::known("evidence", &plain(&benchmark.head.evidence.to_string())), NAMES);
    for row in &benchmark.rows {
        page.fact(&Fact::known(&row.way, &row.what), NAMES);
    }
    for row in &benchmark.rows {
        for cell in &row.cells {
            if let Some(absent) = &cell.absent {
                page.item(
                    "not measured ",
                    &plain(&format!("{}, depth {}: {absent}", row.way, cell.depth)),
                    2,
                );
            }
        }
    }
    page.heading(&format!(
        "Reads in a second, median of {} rounds of {} ms; one thread",
        benchmark.settings.rounds, benchmark.settings.round_ms
    ));
    grid(benchmark, |cell| cell.reads_per_second.map(|rate| figure(rate.median))).show(&mut page);
    page.heading("Reads in a second of the thread's CPU; what interrupts take elsewhere is not in it");
    grid(benchmark, |cell| cell.reads_per_cpu_second.map(|rate| figure(rate.median))).show(&mut page);
    let percentiles: [(&str, Percentile); 3] = [
        ("half of all reads", |one| one.p50_ns),
        ("99 of 100", |one| one.p99_ns),
        ("999 of 1,000", |one| one.p99_9_ns),
    ];
    for (words, percentile) in percentiles {
        page.heading(&format!("Time within which {words} have ended"));
        grid(benchmark, |cell| cell.latency.as_ref().and_then(percentile).map(|ns| time(ns as f64)))
            .show(&mut page);
    }
    page.done()
}

fn grid(benchmark: &BlkBenchmark, told: impl Fn(&BlkCell) -> Option<String>) -> Grid {
    let row = |row: &BlkRow| Row {
        name: plain(&row.way),
        ink: None,
        cells: row.cells.iter().map(|cell| told(cell).unwrap_or_default()).collect(),
    };
    Grid {
        names: "way",
        titles: benchmark.settings.depths.iter().map(|depth| format!("depth {depth}")).collect(),
        rows: benchmark.rows.iter().map(row).collect(),
    }
}
