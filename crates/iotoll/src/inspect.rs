//! `iotoll inspect`: DMA paths, findings, the type of a physical range.

use crate::cli::Inspect;
use crate::output::{self, Outcome};
use crate::source::open;
use crate::whole_file::WholeFile;
use crate::{areas, prices, tolls};
use anyhow::{Context, bail};
use host::diagnose::Basis;
use host::memory::PhysRange;
use host::{Bdf, Host, Inspection};
use inspection::Document;
use std::path::Path;

pub(crate) fn run(args: &Inspect) -> anyhow::Result<Outcome> {
    let host = read(args.from.as_deref())?;
    if let Some(range) = args.range {
        return memory_type(&host, range, args.json);
    }
    let tolls = args.tolls.as_deref().map(tolls::read).transpose()?;
    let prices = args.prices.as_deref().map(|file| prices::read(file, &host)).transpose()?;
    let prices = prices.as_ref().map(std::slice::from_ref);
    let areas = areas::forecasts(&host)?;
    let inspection = Inspection::on(host, Basis { tolls: tolls.as_ref(), prices, areas: &areas });
    if let Some(file) = &args.html {
        WholeFile::write(file, report::page(&inspection, made_by()).as_bytes())?;
        output::say(&format!("{} written", file.display()));
    }
    match (args.json, args.adapter) {
        (true, only) => {
            if let Some(address) = only {
                known(&inspection, address)?;
            }
            let path = args.from.as_deref().map_or("/".to_owned(), |path| path.display().to_string());
            output::json(&Document::new(&inspection, made_by(), &path, only))?;
        }
        (false, None) => output::data(&report::inspection(
            &inspection,
            output::width(),
            output::style(),
            output::length(),
        ))?,
        (false, Some(address)) => output::data(&one(&inspection, address)?)?,
    }
    let concerns =
        |address: Option<Bdf>| args.adapter.is_none() || address.is_none() || address == args.adapter;
    let findings = inspection.findings.iter().filter(|finding| concerns(finding.address)).count();
    Ok(Outcome::of_inspection(&inspection.host, findings))
}

/// Name and version, as they stand in reports.
pub(crate) fn made_by() -> &'static str {
    concat!("iotoll ", env!("CARGO_PKG_VERSION"))
}

fn read(from: Option<&Path>) -> anyhow::Result<Host> {
    let host = Host::read(&open(from)?);
    let says_nothing = host.platform.kernel.is_none() && host.log.file.is_empty();
    if host.adapters.is_empty() && host.bridges.is_empty() && says_nothing {
        let what = from.map_or("this host".to_owned(), |path| path.display().to_string());
        let doubts: String = host.doubts().map(|doubt| format!("; {doubt}")).collect();
        bail!("{what}: neither a kernel version nor a PCI function was found in it{doubts}");
    }
    Ok(host)
}

fn known(inspection: &Inspection, address: Bdf) -> anyhow::Result<()> {
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

fn one(inspection: &Inspection, address: Bdf) -> anyhow::Result<String> {
    known(inspection, address)?;
    report::adapter(inspection, address, output::width(), output::style(), output::length())
        .with_context(|| format!("no adapter {address}"))
}

fn memory_type(host: &Host, range: PhysRange, json: bool) -> anyhow::Result<Outcome> {
    let doubts: Vec<String> = host.doubts().collect();
    let Some(memory) = &host.memory else {
        let unknown = if host.platform.architecture.is_none() { " that is known of" } else { "" };
        let doubts: String = doubts.iter().map(|doubt| format!("; {doubt}")).collect();
        bail!(
            "memory types are known of x86 hosts only, by MTRR and PAT; this host is none{unknown}{doubts}"
        );
    };
    let effective = memory.effective(range);
    match json {
        true => output::json(&Range { schema: "iotoll.range/1", effective: &effective })?,
        false => output::report(report::memory_range(&effective, output::width()))?,
    }
    for doubt in &doubts {
        output::say(&format!("may be wrong: {doubt}"));
    }
    Ok(Outcome::of_inspection(host, 0))
}

#[derive(serde::Serialize)]
struct Range<'a> {
    schema: &'static str,
    #[serde(flatten)]
    effective: &'a host::memory::effective::Effective,
}
