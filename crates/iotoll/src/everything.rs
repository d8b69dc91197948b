//! `iotoll` without arguments: everything at once for this host, a short bench, and report.html.

use crate::areas;
use crate::bench::short;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use host::diagnose::Basis;
use host::{Host, Inspection, Tree};
use std::path::PathBuf;

/// Pages that one folder holds before an older one has to go.
const PAGES_MAX: u32 = 1000;

/// Where the page goes: never in place of another file.
fn pages() -> impl Iterator<Item = PathBuf> {
    let numbered = |number| match number {
        1 => "report.html".into(),
        number => format!("report-{number}.html").into(),
    };
    (1..=PAGES_MAX).map(numbered)
}

pub(crate) fn run() -> anyhow::Result<Outcome> {
    let host = Host::read(&Tree::live());
    let areas = areas::forecasts(&host)?;
    let inspection = Inspection::on(host, Basis { areas: &areas, ..Basis::default() });
    output::data(&report::inspection(&inspection, output::width(), output::style(), output::length()))?;
    // What was found is said already: that nothing could be measured takes nothing away.
    let page = match short() {
        Ok(benchmark) => {
            output::report(report::benchmark_brief(&benchmark, output::width(), output::style()))?;
            report::page_with_benchmark(&inspection, &benchmark, made_by())
        }
        Err(why) => {
            output::say(&format!("iotoll: no bench: {why:#}"));
            report::page(&inspection, made_by())
        }
    };
    let page = WholeFile::write_new(pages(), page.as_bytes())?;
    output::say(&format!(
        "The same with a map of the adapters: {}. One adapter in full: iotoll inspect ADDRESS",
        page.display()
    ));
    Ok(Outcome::of_inspection(&inspection.host, inspection.findings.len()))
}
