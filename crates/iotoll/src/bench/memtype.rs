//! `iotoll bench memtype`: measures memory accesses.

use crate::cli::BenchMemtype;
use crate::output::{self, Outcome};
use bench::MemtypeSettings;

/// Measures memory accesses, and prints the times.
pub(super) fn run(args: &BenchMemtype) -> anyhow::Result<Outcome> {
    let usual = MemtypeSettings::default();
    let settings = MemtypeSettings {
        bytes: super::given_or_default(&args.sizes, usual.bytes),
        bars: args.bars.clone(),
        bar_stores: args.bar_stores,
        in_use: args.in_use,
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::benchmark_origin()?;
    let benchmark = super::measure_with_bar(|progress| bench::run_memtype(settings, origin, progress))?;
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::memtype_benchmark(&benchmark))?,
    }
    Ok(Outcome::Fine)
}
