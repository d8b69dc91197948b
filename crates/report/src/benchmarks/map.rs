//! The page of a benchmark of the mapping layer: time and events of mapping and unmapping memory, by DMA path and size.

use super::words::add_not_measured;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{count, per_io, time};
use crate::page::table::{Row, Table};
use bench::{Cell, MapBenchmark, PerPair};
use escape::terminal::plain;

/// The time of a mapping and its unmapping on each DMA path, by size; then the events of each.
pub fn map_benchmark(benchmark: &MapBenchmark) -> Page {
    let dma_paths = count(benchmark.rows.len(), "DMA path");
    let mut page = Page::titled(format!("Mapping and unmapping memory, by {dma_paths}"));
    page.warnings(&benchmark.head.warnings);
    add_not_measured(&mut page, &benchmark.absent);
    page.heading("DMA paths");
    let widest = benchmark.rows.iter().map(|row| row.dma_path.chars().count()).max().unwrap_or(0);
    page.facts(benchmark.rows.iter().map(|row| Fact::known(&row.dma_path, &row.what)), widest + 2);
    page.heading(format!(
        "Time of a mapping and its unmapping, median of {} rounds of about {} ms that take turns; one thread",
        benchmark.settings.rounds, benchmark.settings.round_ms
    ));
    page.table(times(benchmark));
    page.heading("What a mapping and its unmapping do, besides executing instructions");
    page.table(events(benchmark));
    page
}

/// The time of a mapping and its unmapping, by DMA path and size.
fn times(benchmark: &MapBenchmark) -> Table {
    let cell = |cell: &Cell| cell.ns_per_pair.map(|ns| time(ns.median)).unwrap_or_default();
    let row = |row: &bench::Row| Row {
        name: plain(&row.dma_path),
        ink: None,
        cells: row.cells.iter().map(cell).collect(),
    };
    Table {
        names: "DMA path",
        wraps_names: false,
        titles: benchmark.settings.bytes.iter().map(ToString::to_string).collect(),
        rows: benchmark.rows.iter().map(row).collect(),
    }
}

/// Events per mapping and unmapping on each DMA path, for the smallest and the largest size that was measured.
fn events(benchmark: &MapBenchmark) -> Table {
    let mut rows = Vec::new();
    for row in &benchmark.rows {
        let mut measured = row.cells.iter().filter(|cell| cell.absent.is_none());
        let first = measured.next();
        for cell in first.into_iter().chain(measured.next_back()) {
            let name = format!("{}, {}", plain(&row.dma_path), cell.bytes);
            rows.push(Row { name, ink: None, cells: event_cells(&cell.per_pair) });
        }
    }
    let titles = ["addresses", "table entries", "hypercalls", "invalidations", "bytes copied"];
    Table { names: "DMA path", wraps_names: false, titles: titles.map(str::to_owned).to_vec(), rows }
}

/// The events of a mapping and its unmapping, as cells.
fn event_cells(per_pair: &PerPair) -> Vec<String> {
    let PerPair { allocations, table_entries, hypercalls, invalidations, bounce_bytes } = *per_pair;
    [allocations, table_entries, hypercalls, invalidations, bounce_bytes].map(per_io).to_vec()
}
