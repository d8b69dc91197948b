//! `iotoll bench iova`: measures IOVA allocators with real threads.

use super::peers::load_peers;
use super::{given_or_default, percent_bar};
use crate::cli::BenchIova;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use bench::{Benchmark, Contestant, Progress, Scenario, Settings, built_in_contestants, select};
use indicatif::ProgressBar;

/// Length of a round in the short benchmark of `iotoll` without arguments.
const SHORT_ROUND_MS: u64 = 10;

/// Measures IOVA allocators. Failed allocations and frees count as findings.
pub(super) fn run(args: &BenchIova) -> anyhow::Result<Outcome> {
    WholeFile::check(args.html.as_deref())?;
    let benchmark = measure(&chosen_contestants(args)?, args.baseline.as_deref(), settings_from(args))?;
    let page = args.html.as_deref();
    let written =
        page.map_or(Ok(()), |path| WholeFile::write(path, report::benchmark_page(&benchmark).as_bytes()));
    match args.json {
        true => output::print_json(&benchmark)?,
        false => output::print_page(&report::benchmark(&benchmark))?,
    }
    written?;
    Ok(Outcome::of_findings(failure_count(&benchmark)))
}

/// Measures the simplest scenario, `pairs`, for about two seconds.
pub(crate) fn run_short() -> anyhow::Result<Benchmark> {
    let quick = Settings::of_this_machine(true);
    let settings = Settings { scenarios: vec![Scenario::Pairs], round_ms: SHORT_ROUND_MS, ..quick };
    measure(&built_in_contestants(), None, settings)
}

/// Measures contestants with a progress bar.
fn measure(
    contestants: &[Contestant],
    baseline: Option<&str>,
    settings: Settings,
) -> anyhow::Result<Benchmark> {
    let origin = super::benchmark_origin()?;
    let bar = percent_bar()?;
    let benchmark =
        bench::run(contestants, baseline, settings, origin, &mut |step| show_progress(&bar, step));
    bar.finish_and_clear();
    Ok(benchmark?)
}

/// The built-in contestants and peers, or those of them that `--contestant` names.
fn chosen_contestants(args: &BenchIova) -> anyhow::Result<Vec<Contestant>> {
    let mut all = built_in_contestants();
    all.extend(load_peers(&args.peers, &all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>())?);
    Ok(select(&all, &super::distinct(&args.contestants))?)
}

/// The settings of the command line, with defaults for what it does not set.
fn settings_from(args: &BenchIova) -> Settings {
    let usual = Settings::of_this_machine(args.quick);
    let settings = Settings {
        scenarios: given_or_default(&args.scenarios, usual.scenarios),
        threads: given_or_default(&args.threads, usual.threads),
        rounds: args.rounds.unwrap_or(usual.rounds),
        round_ms: args.round_ms.unwrap_or(usual.round_ms),
        pairs: args.pairs,
        held: args.held.unwrap_or(usual.held),
        burst: args.burst.unwrap_or(usual.burst),
        pin: args.pin,
        seed: args.seed,
        ..usual
    };
    settings.with_bits(args.bits)
}

/// Shows the step in progress on the bar.
fn show_progress(bar: &ProgressBar, step: Progress<'_>) {
    bar.set_length(step.steps as u64);
    bar.set_position(step.done as u64);
    output::set_bar_message(bar, &format!("{} {} threads {}", step.scenario, step.threads, step.contestant));
}

/// Number of results in which an allocation or a free failed.
fn failure_count(benchmark: &Benchmark) -> usize {
    let entries = benchmark.cases.iter().flat_map(|case| &case.entries);
    entries.filter_map(|entry| entry.measured.as_ref()).filter(|one| one.failed + one.refused > 0).count()
}
