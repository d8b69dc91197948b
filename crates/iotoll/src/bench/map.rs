//! `iotoll bench map`: measures mapping and unmapping of memory on each DMA path.

use crate::cli::BenchMap;
use crate::output::{self, Outcome};
use bench::MapSettings;

/// Measures mapping and unmapping, and prints the times.
pub(super) fn run(args: &BenchMap) -> anyhow::Result<Outcome> {
    let usual = MapSettings::default();
    let settings = MapSettings {
        dma_paths: super::given_or_default(&args.dma_paths, usual.dma_paths),
        bytes: super::given_or_default(&args.sizes, usual.bytes),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::benchmark_origin()?;
    let benchmark = super::measure_with_bar(|progress| bench::run_map(settings, origin, progress))?;
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::map_benchmark(&benchmark))?,
    }
    Ok(Outcome::Fine)
}
