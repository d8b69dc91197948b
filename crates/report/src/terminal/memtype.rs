//! What accesses to memory take, on a terminal.

use super::grid::{Grid, Row};
use super::page::Page;
use crate::bench_text::{figure, time};
use crate::fact::Fact;
use crate::style::Style;
use bench::{Area, MemtypeBenchmark, MemtypeCell};
use escape::terminal::plain;

/// Columns for the names of facts.
const NAMES: usize = 12;

/// Each memory with all ways of access: what goes through, or what each takes.
pub fn memtype_benchmark(benchmark: &MemtypeBenchmark, width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title("Accesses to memory, by how they are made");
    page.warnings(&benchmark.head.warnings);
    for why in &benchmark.absent {
        page.item("not measured ", &plain(why), 2);
    }
    page.fact(&Fact::known("evidence", &plain(&benchmark.head.evidence.to_string())), NAMES);
    page.prose(
        &format!(
            "Median of {} rounds of about {} ms that take turns; one thread; loads and stores of 8 bytes, non-temporal loads of 16.",
            benchmark.settings.rounds, benchmark.settings.round_ms
        ),
        0,
    );
    for area in &benchmark.areas {
        page.heading(&format!("{}: {}", plain(&area.name), area.kind.words()));
        grid(area, benchmark).show(&mut page);
    }
    page.done()
}

fn grid(area: &Area, benchmark: &MemtypeBenchmark) -> Grid {
    let row = |row: &bench::MemtypeRow| Row {
        name: row.access.words().to_owned(),
        ink: None,
        cells: row.cells.iter().map(cell).collect(),
    };
    Grid {
        names: "access",
        titles: benchmark.settings.bytes.iter().map(ToString::to_string).collect(),
        rows: area.rows.iter().map(row).collect(),
    }
}

/// Bytes in a second; of accesses that wait for each other, the time of one.
fn cell(cell: &MemtypeCell) -> String {
    match (cell.gigabytes_per_second, cell.ns_per_access) {
        (Some(rate), _) => format!("{} GB/s", figure(rate)),
        (None, Some(ns)) => time(ns.median),
        (None, None) => String::new(),
    }
}
