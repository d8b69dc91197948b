//! `iotoll bench map`: measures mapping and unmapping of memory on each DMA path.

use crate::cli::BenchMap;
use crate::output::{self, Outcome};
use crate::prices;
use anyhow::Context;
use bench::{AbsentPrice, Head, HostPrice, HostPrices, MapSettings};
use host::kernel::Architecture;
use host::sheet_word;
use std::path::Path;
use toll::{Evidence, Given, PriceList};

/// What a list says of prices that this command can't measure anywhere.
const NOT_HERE: &str = "Not measured: event_ns.invalidations and event_ns.hypercalls, which are function calls in a benchmark's models; \
                        `iotoll watch --prices FILE` times them.";

/// Measures mapping and unmapping, and prints the times.
pub(super) fn run(args: &BenchMap) -> anyhow::Result<Outcome> {
    prices::expect_new(args.prices.as_deref())?;
    let usual = MapSettings::default();
    let settings = MapSettings {
        dma_paths: super::given_or_default(&args.dma_paths, usual.dma_paths),
        bytes: super::given_or_default(&args.sizes, usual.bytes),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let rounds = settings.rounds;
    let origin = super::benchmark_origin()?;
    let benchmark = super::measure_with_bar(|progress| bench::run_map(settings, origin, progress))?;
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::map_benchmark(&benchmark))?,
    }
    if let Some(path) = &args.prices {
        write_prices(path, &bench::measure_host_prices(rounds)?, &benchmark.head)?;
    }
    Ok(Outcome::Fine)
}

/// Writes the price list of this host, or says why there is none. It never has a price that was not measured in place of the built-in one.
fn write_prices(path: &Path, prices: &HostPrices, head: &Head) -> anyhow::Result<()> {
    let absent = |AbsentPrice { priced, why }: &AbsentPrice| format!("Not measured: {priced}: {why}.");
    let absent: Vec<String> = prices.absent.iter().map(absent).collect();
    absent.iter().for_each(|remark| output::print_note(remark));
    if prices.measured.is_empty() {
        output::print_note(&format!("{} not written: no price was measured", path.display()));
        return Ok(());
    }
    let builtin = builtin_list().context("no built-in price list is for this architecture")?;
    let on = prices::measured_on(head);
    let given = |HostPrice { priced, ns, how }: &HostPrice| {
        let evidence = Evidence::Measured { how: how.clone(), on: on.clone() };
        (*priced, Given { value: *ns, evidence })
    };
    let list = builtin.with_measured(prices.measured.iter().map(given), &on);
    let warnings = head.warnings.iter().map(|warning| format!("Warning: {warning}."));
    let remarks: Vec<String> = warnings.chain(absent).chain([NOT_HERE.to_owned()]).collect();
    prices::write(path, &list, &remarks)
}

/// The built-in list of this machine's architecture.
fn builtin_list() -> Option<&'static PriceList> {
    let machine = rustix::system::uname();
    let word = sheet_word(&Architecture::from_name(machine.machine().to_str().ok()?)?)?;
    PriceList::builtin().iter().find(|list| list.arch == word)
}
