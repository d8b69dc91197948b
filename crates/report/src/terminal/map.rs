//! What mappings take, on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::bench_text::time;
use crate::fact::Fact;
use crate::quantity;
use crate::style::Style;
use bench::{Cell, MapBenchmark, PerPair};
use escape::terminal::plain;

/// What each DMA path takes for each size, and what a mapping does on it besides executing instructions.
pub fn map_benchmark(benchmark: &MapBenchmark, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title(&format!(
        "Mapping and unmapping memory, by {}",
        quantity::count(benchmark.rows.len(), "DMA path")
    ));
    page.warnings(&benchmark.head.warnings);
    for why in &benchmark.absent {
        page.item("not measured ", &plain(why), 2);
    }
    page.heading("DMA paths");
    let widest = benchmark.rows.iter().map(|row| row.dma_path.chars().count()).max().unwrap_or(0);
    for row in &benchmark.rows {
        page.fact(&Fact::known(&plain(&row.dma_path), &row.what), widest + 2);
    }
    page.heading(&format!(
        "Time of a mapping and its unmapping, median of {} rounds of about {} ms that take turns; one thread",
        benchmark.settings.rounds, benchmark.settings.round_ms
    ));
    times(benchmark).show(&mut page);
    page.heading("What a mapping and its unmapping do, besides executing instructions");
    done(benchmark).show(&mut page);
    page.done()
}

fn times(benchmark: &MapBenchmark) -> Grid {
    let cell = |cell: &Cell| cell.ns_per_pair.map(|ns| time(ns.median)).unwrap_or_default();
    let row = |row: &bench::Row| Row {
        name: plain(&row.dma_path),
        ink: None,
        cells: row.cells.iter().map(cell).collect(),
    };
    Grid {
        names: "DMA path",
        titles: benchmark.settings.bytes.iter().map(ToString::to_string).collect(),
        rows: benchmark.rows.iter().map(row).collect(),
    }
}

/// Of the smallest and the largest size that was measured.
fn done(benchmark: &MapBenchmark) -> Grid {
    let mut rows = Vec::new();
    for row in &benchmark.rows {
        let mut measured = row.cells.iter().filter(|cell| cell.absent.is_none());
        let first = measured.next();
        for cell in first.into_iter().chain(measured.next_back()) {
            let name = format!("{}, {}", plain(&row.dma_path), cell.bytes);
            rows.push(Row { name, ink: None, cells: counts(&cell.per_pair) });
        }
    }
    let titles = ["addresses", "table entries", "hypercalls", "invalidations", "bytes copied"];
    Grid { names: "DMA path", titles: titles.map(str::to_owned).to_vec(), rows }
}

fn counts(done: &PerPair) -> Vec<String> {
    let PerPair { allocations, table_entries, hypercalls, invalidations, bounce_bytes } = *done;
    [allocations, table_entries, hypercalls, invalidations, bounce_bytes].map(quantity::per_io).to_vec()
}
