//! `iotoll bench map`: mapping and unmapping memory by each road.

use crate::cli::BenchMap;
use crate::date::today;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use bench::{MapSettings, Origin};
use indicatif::ProgressBar;

pub(super) fn run(args: &BenchMap) -> anyhow::Result<Outcome> {
    let usual = MapSettings::default();
    let settings = MapSettings {
        roads: super::asked_or(&args.roads, usual.roads),
        bytes: super::asked_or(&args.sizes, usual.bytes),
        rounds: args.rounds.unwrap_or(usual.rounds),
        round_ms: args.round_ms.unwrap_or(usual.round_ms),
    };
    let origin =
        Origin { made_by: made_by().to_owned(), command: std::env::args().collect(), date: today()? };
    let bar: ProgressBar = super::bar()?;
    let measured = bench::run_map(settings, origin, &mut |done, steps| {
        bar.set_length(steps);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let benchmark = measured?;
    match args.json {
        true => output::json(&benchmark)?,
        false => output::data(&report::map_benchmark(&benchmark, output::width(), output::style()))?,
    }
    Ok(Outcome::Fine)
}
