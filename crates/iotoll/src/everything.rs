//! `iotoll` without arguments: everything at once for this host, a short bench, and report.html.

use crate::areas;
use crate::bench::short;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use host::judge::Basis;
use host::{Host, Inspection, Tree};
use std::path::Path;

/// Where the page goes.
const PAGE: &str = "report.html";

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
    WholeFile::write(Path::new(PAGE), page.as_bytes())?;
    output::say(&format!(
        "The same with a map of the adapters: {PAGE}. One adapter in full: iotoll inspect ADDRESS"
    ));
    Ok(Outcome::of(inspection.findings.len()))
}
