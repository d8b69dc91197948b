//! The page of a benchmark of memory types: rates or latencies of CPU accesses, by instruction and size.

use super::words::add_not_measured;
use crate::page::Page;
use crate::page::fact::Fact;
use crate::page::quantity::{figure, time};
use crate::page::table::{Row, Table};
use bench::{Area, MemtypeBenchmark, MemtypeCell};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// A table for each area of memory: the rate, or the time of one access, by kind of access and size.
pub fn memtype_benchmark(benchmark: &MemtypeBenchmark) -> Page {
    let mut page = Page::titled("Accesses to memory, by how they are made");
    page.warnings(&benchmark.head.warnings);
    add_not_measured(&mut page, &benchmark.absent);
    page.facts([Fact::known("evidence", &benchmark.head.evidence.to_string())], NAMES);
    page.prose(
        format!(
            "Median of {} rounds of about {} ms that take turns; one thread; loads and stores of 8 bytes, non-temporal loads of 16.",
            benchmark.settings.rounds, benchmark.settings.round_ms
        ),
        0,
    );
    for area in &benchmark.areas {
        page.heading(format!("{}: {}", plain(&area.name), area.kind.words()));
        page.table(table(area, benchmark));
    }
    page
}

/// The results in one area of memory, by kind of access and size.
fn table(area: &Area, benchmark: &MemtypeBenchmark) -> Table {
    let row = |row: &bench::MemtypeRow| Row {
        name: row.access.words().to_owned(),
        ink: None,
        cells: row.cells.iter().map(cell).collect(),
    };
    Table {
        names: "access",
        wraps_names: false,
        titles: benchmark.settings.bytes.iter().map(ToString::to_string).collect(),
        rows: area.rows.iter().map(row).collect(),
    }
}

/// The rate of independent accesses, or the time of one access where each depends on the one before.
fn cell(cell: &MemtypeCell) -> String {
    match (cell.gigabytes_per_second, cell.ns_per_access) {
        (Some(rate), _) => format!("{} GB/s", figure(rate)),
        (None, Some(ns)) => time(ns.median),
        (None, None) => String::new(),
    }
}
