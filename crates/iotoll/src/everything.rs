//! `iotoll` without arguments: inspects this host, runs a short benchmark, and writes report.html.

use crate::bench::run_short;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use host::diagnose::Basis;
use host::{Host, Inspection, Tree};
use std::path::PathBuf;

/// Highest number of a page's name; beyond it the user must remove one.
const PAGES_MAX: u32 = 1000;

/// Names for the page, in the order tried: `report.html`, `report-2.html` ... An existing file is never replaced.
fn page_paths() -> impl Iterator<Item = PathBuf> {
    let numbered = |number| match number {
        1 => "report.html".into(),
        number => format!("report-{number}.html").into(),
    };
    (1..=PAGES_MAX).map(numbered)
}

/// Inspects this host, runs a short benchmark, prints both, and writes them to an HTML page.
pub(crate) fn run() -> anyhow::Result<Outcome> {
    let host = Host::read(&Tree::live());
    let areas = model::area_forecasts(&host)?;
    let inspection = Inspection::with_basis(host, Basis { areas: &areas, ..Basis::default() });
    output::print_text(&report::inspection(
        &inspection,
        output::width(),
        output::style(),
        output::report_length(),
        false,
    ))?;
    // The inspection is complete without a benchmark.
    let page = match run_short() {
        Ok(benchmark) => {
            output::print_page(&report::benchmark_brief(&benchmark))?;
            report::page_with_benchmark(&inspection, &benchmark, program_version())
        }
        Err(why) => {
            output::print_note(&format!("iotoll: the benchmark failed: {why:#}"));
            report::inspection_page(&inspection, program_version())
        }
    };
    let page = WholeFile::write_new(page_paths(), page.as_bytes())?;
    output::print_note(&format!(
        "{} has the same and a map of the adapters. `iotoll inspect ADDRESS` shows one adapter in full",
        page.display()
    ));
    Ok(Outcome::of_inspection(&inspection.host, inspection.findings.len()))
}
