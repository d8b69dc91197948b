//! `iotoll bench memtype`: what accesses to memory take.

use crate::cli::BenchMemtype;
use crate::output::{self, Outcome};
use bench::MemtypeSettings;

pub(super) fn run(args: &BenchMemtype) -> anyhow::Result<Outcome> {
    let usual = MemtypeSettings::default();
    let settings = MemtypeSettings {
        bytes: super::asked_or(&args.sizes, usual.bytes),
        bars: args.bars.clone(),
        bar_stores: args.bar_stores,
        in_use: args.in_use,
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
    };
    let origin = super::origin()?;
    let benchmark = super::shown(|progress| bench::run_memtype(settings, origin, progress))?;
    match args.json {
        true => output::json(&benchmark)?,
        false => output::report(report::memtype_benchmark(&benchmark, output::width(), output::style()))?,
    }
    Ok(Outcome::Fine)
}
