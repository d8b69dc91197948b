//! `iotoll bench map`: mapping and unmapping memory by each DMA path.

use crate::cli::BenchMap;
use crate::output::{self, Outcome};
use bench::MapSettings;

pub(super) fn run(args: &BenchMap) -> anyhow::Result<Outcome> {
    let usual = MapSettings::default();
    let settings = MapSettings {
        dma_paths: super::asked_or(&args.dma_paths, usual.dma_paths),
        bytes: super::asked_or(&args.sizes, usual.bytes),
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::origin()?;
    let benchmark = super::shown(|progress| bench::run_map(settings, origin, progress))?;
    match args.json {
        true => output::json(&benchmark)?,
        false => output::report(report::map_benchmark(&benchmark, output::width(), output::style()))?,
    }
    Ok(Outcome::Fine)
}
