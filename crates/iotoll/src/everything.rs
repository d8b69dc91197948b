//! `iotoll` without arguments: everything at once for this host, and report.html.

use crate::inspect::made_by;
use crate::output::{self, Outcome};
use host::{Host, Inspection, Tree};
use std::path::Path;

/// Where the page goes.
const PAGE: &str = "report.html";

pub(crate) fn run() -> anyhow::Result<Outcome> {
    let inspection = Inspection::of(Host::read(&Tree::live()));
    output::data(&report::inspection(&inspection, output::width(), output::style()))?;
    output::file(Path::new(PAGE), report::page(&inspection, made_by()).as_bytes())?;
    output::say(&format!(
        "The same with a map of the adapters: {PAGE}. One adapter in full: iotoll inspect ADDRESS"
    ));
    Ok(Outcome::of(inspection.findings.len()))
}
