//! The page of a benchmark of a disk: rates and latencies of random reads and writes, by interface and queue depth.

use super::words::add_not_measured;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use crate::page::table::{Row, Table};
use bench::{BlkBenchmark, BlkCell, BlkOperation, BlkRow};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 22;

/// A percentile of the latencies, in nanoseconds.
type Percentile = fn(&bench::Latency) -> Option<u64>;

/// Rates, rates by CPU time, and latency percentiles, by interface and queue depth.
pub fn blk_benchmark(benchmark: &BlkBenchmark) -> Page {
    let BlkBenchmark { settings, disk, .. } = benchmark;
    let operations = match settings.operations.contains(&BlkOperation::Write) {
        true => "reads and writes",
        false => "reads",
    };
    let mut page = Page::titled(format!("Random {operations} of {} bytes: {disk}", settings.bytes));
    page.warnings(&benchmark.head.warnings);
    page.facts([Fact::known("evidence", &benchmark.head.evidence.to_string())], NAMES);
    let mut ways: Vec<&BlkRow> = benchmark.rows.iter().collect();
    // Those of one interface are neighbours.
    ways.dedup_by_key(|row| &row.way);
    page.facts(ways.iter().map(|row| Fact::known(&row.way, &row.what)), NAMES);
    let cells = benchmark.rows.iter().flat_map(|row| row.cells.iter().map(move |cell| (row, cell)));
    add_not_measured(
        &mut page,
        cells.filter_map(|(row, cell)| {
            Some(format!("{}, depth {}: {}", row_name(row), cell.depth, cell.absent.as_ref()?))
        }),
    );
    page.heading(format!(
        "Completed in a second, median of {} rounds of {} ms; one thread",
        settings.rounds, settings.round_ms
    ));
    page.table(table(benchmark, |cell| cell.per_second().map(|rate| figure(rate.median))));
    page.heading("Completed in a second of the thread's CPU; interrupts on other CPUs are not included");
    page.table(table(benchmark, |cell| cell.per_cpu_second().map(|rate| figure(rate.median))));
    let percentiles: [(&str, Percentile); 3] = [
        ("half of all", |latency| latency.p50_ns),
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

/// An interface and what it did.
fn row_name(row: &BlkRow) -> String {
    plain(&format!("{}, {}", row.way, row.operation))
}

/// One value of each cell, by interface and queue depth; empty where it was not measured.
fn table(benchmark: &BlkBenchmark, value: impl Fn(&BlkCell) -> Option<String>) -> Table {
    let row = |row: &BlkRow| Row {
        name: row_name(row),
        ink: None,
        cells: row.cells.iter().map(|cell| value(cell).unwrap_or_default()).collect(),
    };
    Table {
        names: "interface",
        wraps_names: false,
        titles: benchmark.settings.depths.iter().map(|depth| format!("depth {depth}")).collect(),
        rows: benchmark.rows.iter().map(row).collect(),
    }
}
