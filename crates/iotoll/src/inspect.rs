//! `iotoll inspect`: DMA paths and findings of a host, or the memory type of a physical range.

use crate::cli::Inspect;
use crate::output::{self, Outcome};
use crate::source::open_evidence;
use crate::whole_file::WholeFile;
use crate::{prices, tolls};
use anyhow::{Context, bail};
use host::diagnose::Basis;
use host::memory::PhysRange;
use host::{Bdf, Host, Inspection};
use inspection::Document;
use std::path::PathBuf;

/// Inspects a host and prints its DMA paths and findings, or the memory type of a range.
pub(crate) fn run(args: &Inspect) -> anyhow::Result<Outcome> {
    let host = read_host(args)?;
    if let Some(range) = args.range {
        return print_memory_type(&host, range, args.json);
    }
    let tolls = args.tolls.as_deref().map(tolls::read_folder).transpose()?;
    let prices = prices::read_for_host(&args.prices, &host)?;
    let prices = prices.as_ref().map(std::slice::from_ref);
    // The model of an area takes longer than all else; a short report does not show it.
    let shows_forecasts = args.explain || args.json || args.html.is_some();
    let areas = if shows_forecasts { model::area_forecasts(&host)? } else { Vec::new() };
    let inspection = Inspection::with_basis(host, Basis { tolls: tolls.as_ref(), prices, areas: &areas });
    if let Some(file) = &args.html {
        WholeFile::write(file, report::inspection_page(&inspection, program_version()).as_bytes())?;
    }
    match (args.json, args.adapter) {
        (true, only) => {
            if let Some(address) = only {
                expect_adapter(&inspection, address)?;
            }
            output::print_json(&Document::new(&inspection, program_version(), &shown_source(args), only))?;
        }
        (false, None) => output::print_text(&report::inspection(
            &inspection,
            output::width(),
            output::style(),
            output::report_length(),
            args.explain,
        ))?,
        (false, Some(address)) => output::print_text(&adapter_report(&inspection, address)?)?,
    }
    let uses_prices = inspection.findings.iter().flat_map(|one| &one.predicted).any(|one| one.time.is_some());
    if !args.prices.is_empty() && !uses_prices {
        output::print_note(
            "the price lists were read and not used: no fix of a finding leads to another DMA path whose cost is known",
        );
    }
    let concerns =
        |address: Option<Bdf>| args.adapter.is_none() || address.is_none() || address == args.adapter;
    let findings = inspection.findings.iter().filter(|finding| concerns(finding.address)).count();
    let unjudged = inspection.unjudged.iter().filter(|problem| concerns(problem.address)).count();
    Ok(Outcome::of_inspection(&inspection.host, findings + unjudged))
}

/// Name and version of this program, for reports and documents.
pub(crate) fn program_version() -> &'static str {
    concat!("iotoll ", env!("CARGO_PKG_VERSION"))
}

/// Reads a host. Fails if the source has neither a kernel version, nor a log, nor kernel options, nor a PCI function, so it is no host.
fn read_host(args: &Inspect) -> anyhow::Result<Host> {
    let host = Host::read(&open_evidence(args.from.iter().map(PathBuf::as_path), args.cmdline.as_deref())?);
    let what = || if args.from.is_empty() { "this host".to_owned() } else { shown_source(args) };
    host.expect_facts().with_context(what)
}

/// The source as it was given: `/` for this host.
fn shown_source(args: &Inspect) -> String {
    let paths: Vec<String> = args.from.iter().map(|path| path.display().to_string()).collect();
    if paths.is_empty() { "/".to_owned() } else { paths.join(", ") }
}

/// Fails unless the host has an adapter at this address.
fn expect_adapter(inspection: &Inspection, address: Bdf) -> anyhow::Result<()> {
    let addresses = inspection.host.adapters.iter().map(|adapter| adapter.function.address);
    if addresses.clone().any(|known| known == address) {
        return Ok(());
    }
    if inspection.host.bridges.contains_key(&address) {
        bail!("{address} is a bridge: it does no DMA of its own; name an adapter below it");
    }
    let shown: Vec<String> = addresses.take(8).map(|known| known.to_string()).collect();
    bail!("no adapter {address} here; there are {} ...", shown.join(", "))
}

/// The report of one adapter in full.
fn adapter_report(inspection: &Inspection, address: Bdf) -> anyhow::Result<String> {
    expect_adapter(inspection, address)?;
    report::adapter(inspection, address, output::width(), output::style(), output::report_length())
        .with_context(|| format!("no adapter {address}"))
}

/// Prints the effective memory type of a physical range. Fails on hosts without MTRRs.
fn print_memory_type(host: &Host, range: PhysRange, json: bool) -> anyhow::Result<Outcome> {
    let doubts: Vec<String> = host.doubts().collect();
    let Some(memory) = &host.memory else {
        let known = if host.platform.architecture.is_none() { "may not be" } else { "is not" };
        let doubts: String = doubts.iter().map(|doubt| format!("; {doubt}")).collect();
        bail!("only x86 CPUs have memory types by MTRR and PAT; this host {known} x86{doubts}");
    };
    let effective = memory.effective(range);
    match json {
        true => output::print_json(&Range {
            schema: RANGE_SCHEMA,
            made_by: program_version(),
            effective: &effective,
        })?,
        false => output::print_page(&report::memory_range(&effective))?,
    }
    for doubt in &doubts {
        output::print_note(&format!("may be wrong: {doubt}"));
    }
    Ok(Outcome::of_inspection(host, 0))
}

/// The version of the document's layout.
pub(crate) const RANGE_SCHEMA: &str = "iotoll.range/1";

/// What `iotoll inspect --range --json` prints.
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Range<'a> {
    /// `iotoll.range/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    #[serde(flatten)]
    effective: &'a host::memory::effective::Effective,
}
