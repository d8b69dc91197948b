//! `iotoll bench iova`: allocators of I/O virtual addresses, with real threads.

use super::{asked_or, bar};
use crate::cli::BenchIova;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::bail;
use bench::{Benchmark, Contestant, Machine, Peer, Progress, Scenario, Settings, ours, select};
use indicatif::ProgressBar;
use std::path::PathBuf;
use std::str::FromStr;

/// Without being told, up to so many threads for each CPU: what happens when they must share is shown too.
const THREADS_PER_CPU: usize = 4;
/// The scenario `full` fills its window, which takes long for a large one.
const FULL_BITS_MAX: u32 = 32;

/// A round where everything else is waiting for it.
const SHORT_ROUND_MS: u64 = 10;

/// A library with an allocator, and the name it is to have.
#[derive(Debug, Clone)]
pub(crate) struct PeerFile {
    name: String,
    library: PathBuf,
}

impl FromStr for PeerFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, library)) if !name.is_empty() && !library.is_empty() => {
                Ok(Self { name: name.to_owned(), library: library.into() })
            }
            _ => Err("expected NAME=LIB.so".to_owned()),
        }
    }
}

pub(super) fn run(args: &BenchIova) -> anyhow::Result<Outcome> {
    // Before minutes go by.
    args.html.as_deref().map_or(Ok(()), |path| WholeFile::create(path).map(drop))?;
    let benchmark = measure(&contestants(args)?, args.baseline.as_deref(), settings(args))?;
    let page = args.html.as_deref();
    let written =
        page.map_or(Ok(()), |path| WholeFile::write(path, report::benchmark_page(&benchmark).as_bytes()));
    match args.json {
        true => output::json(&benchmark)?,
        false => output::report(report::benchmark(&benchmark, output::width(), output::style()))?,
    }
    written?;
    Ok(Outcome::of(failures(&benchmark)))
}

/// The plainest scenario, for about two seconds.
pub(crate) fn short() -> anyhow::Result<Benchmark> {
    let quick = Settings { scenarios: vec![Scenario::Pairs], threads: threads(true), ..Settings::default() };
    measure(&ours(), None, Settings { round_ms: SHORT_ROUND_MS, ..quick.quick() })
}

fn measure(
    contestants: &[Contestant],
    baseline: Option<&str>,
    settings: Settings,
) -> anyhow::Result<Benchmark> {
    let origin = super::origin()?;
    let bar = bar()?;
    let benchmark = bench::run(contestants, baseline, settings, origin, &mut |step| show(&bar, step));
    bar.finish_and_clear();
    Ok(benchmark?)
}

/// Ours and the peers, or those of them that are asked for.
fn contestants(args: &BenchIova) -> anyhow::Result<Vec<Contestant>> {
    let mut all = ours();
    for file in &args.peers {
        if all.iter().any(|one| one.name == file.name) {
            bail!(
                "there is a contestant {:?} already: give the peer {} another name",
                file.name,
                file.library.display()
            );
        }
        all.push(Contestant::peer(&file.name, &Peer::load(&file.library)?));
    }
    Ok(select(&all, &args.contestants)?)
}

fn settings(args: &BenchIova) -> Settings {
    let usual = Settings { threads: threads(args.quick), ..Settings::default() };
    let usual = if args.quick { usual.quick() } else { usual };
    Settings {
        scenarios: asked_or(&args.scenarios, usual.scenarios),
        threads: asked_or(&args.threads, usual.threads),
        rounds: args.rounds.unwrap_or(usual.rounds),
        round_ms: args.round_ms.unwrap_or(usual.round_ms),
        pairs: args.pairs,
        held: args.held.unwrap_or(usual.held),
        burst: args.burst.unwrap_or(usual.burst),
        bits: args.bits,
        full_bits: args.bits.min(FULL_BITS_MAX).min(usual.full_bits),
        pin: args.pin,
        seed: args.seed,
    }
}

fn threads(quick: bool) -> Vec<usize> {
    let cpus = Machine::here().cpus;
    if quick {
        return vec![1, cpus.max(2)];
    }
    let most = (cpus * THREADS_PER_CPU).next_power_of_two();
    (0..).map(|power| 1 << power).take_while(|threads| *threads <= most).collect()
}

fn show(bar: &ProgressBar, step: Progress<'_>) {
    bar.set_length(step.steps as u64);
    bar.set_position(step.done as u64);
    output::show_progress(bar, &format!("{} {} threads {}", step.scenario, step.threads, step.contestant));
}

/// Contestants that failed in a case.
fn failures(benchmark: &Benchmark) -> usize {
    let entries = benchmark.cases.iter().flat_map(|case| &case.entries);
    entries.filter_map(|entry| entry.measured.as_ref()).filter(|one| one.failed + one.refused > 0).count()
}
