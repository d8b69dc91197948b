//! The page of a benchmark of a disk: rates and latencies of random reads, by driver and queue depth.

use super::words::add_not_measured;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use crate::page::table::{Row, Table};
use bench::{BlkBenchmark, BlkCell, BlkRow};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 22;

/// A percentile of the latencies, in nanoseconds.
type Percentile = fn(&bench::Latency) -> Option<u64>;

/// Reads per second, reads per second of CPU time, and latency percentiles, by driver and queue depth.
pub fn blk_benchmark(benchmark: &BlkBenchmark) -> Page {
    let mut page =
        Page::titled(format!("Random reads of {} bytes from {}", benchmark.settings.bytes, benchmark.disk));
    page.warnings(&benchmark.head.warnings);
    page.facts([Fact::known("evidence", &benchmark.head.evidence.to_string())], NAMES);
    page.facts(benchmark.rows.iter().map(|row| Fact::known(&row.way, &row.what)), NAMES);
    let cells = benchmark.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    add_not_measured(
        &mut page,
        cells.filter_map(|(row, cell)| {
            Some(format!("{}, depth {}: {}", row.way, cell.depth, cell.absent.as_ref()?))
        }),
    );
    page.heading(format!(
        "Reads in a second, median of {} rounds of {} ms; one thread",
        benchmark.settings.rounds, benchmark.settings.round_ms
    ));
    page.table(table(benchmark, |cell| cell.reads_per_second.map(|rate| figure(rate.median))));
    page.heading("Reads in a second of the thread's CPU; interrupts on other CPUs are not included");
    page.table(table(benchmark, |cell| cell.reads_per_cpu_second.map(|rate| figure(rate.median))));
    let percentiles: [(&str, Percentile); 3] = [
        ("half of all reads", |latency| latency.p50_ns),
        ("99 of 100", |latency| latency.p99_ns),
        ("999 of 1,000", |latency| latency.p99_9_ns),
    ];
    for (words, percentile) in percentiles {
        page.heading(format!("Time within which {words} have ended"));
        page.table(table(benchmark, |cell| {
            cell.latency.as_ref().and_then(percentile).map(|ns| time(ns as f64))
        }));
    }
    page
}

/// One value of each cell, by driver and queue depth; empty where it was not measured.
fn table(benchmark: &BlkBenchmark, value: impl Fn(&BlkCell) -> Option<String>) -> Table {
    let row = |row: &BlkRow| Row {
        name: plain(&row.way),
        ink: None,
        cells: row.cells.iter().map(|cell| value(cell).unwrap_or_default()).collect(),
    };
    Table {
        names: "way",
        wraps_names: false,
        titles: benchmark.settings.depths.iter().map(|depth| format!("depth {depth}")).collect(),
        rows: benchmark.rows.iter().map(row).collect(),
    }
}
