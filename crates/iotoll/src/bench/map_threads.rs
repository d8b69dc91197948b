//! `iotoll bench map --threads`: measures mapping and unmapping by many threads.

use super::peers::load_peers;
use crate::cli::BenchMap;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::bail;
use bench::{Bytes, MapContestant, MapThreadsSettings, map_contestants, run_map_threads, select_map};
use std::path::PathBuf;

/// Measures contestants with each number of threads, prints the times and writes the page.
pub(super) fn run(args: &BenchMap) -> anyhow::Result<Outcome> {
    WholeFile::check([args.html.as_deref(), args.svg.as_deref()].into_iter().flatten())?;
    let (contestants, settings) = (chosen_contestants(args)?, settings_from(args)?);
    let origin = super::benchmark_origin()?;
    let measured =
        super::measure_with_bar(|progress| run_map_threads(&contestants, settings, origin, progress))?;
    let page = report::map_threads(&measured);
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| {
        path.as_deref().map_or(Ok(()), |path| WholeFile::write(path, text().as_bytes()))
    };
    let written = write(&args.html, &|| report::html(&page, "iotoll · bench map", program_version()))
        .and_then(|()| write(&args.svg, &|| report::svg_file(&report::map_threads_drawing(&measured))));
    match args.json {
        true => output::print_json(&measured)?,
        false => output::print_page(&page)?,
    }
    written?;
    Ok(Outcome::Fine)
}

/// All contestants, or those of them that `--contestant` names.
fn chosen_contestants(args: &BenchMap) -> anyhow::Result<Vec<MapContestant>> {
    let built_in = map_contestants(&[]);
    let peers = load_peers(&args.peers, &built_in.iter().map(|one| one.name.as_str()).collect::<Vec<_>>())?;
    Ok(select_map(&map_contestants(&peers), &super::distinct(&args.contestants))?)
}

/// The settings of the command line, with defaults for what it does not set.
fn settings_from(args: &BenchMap) -> anyhow::Result<MapThreadsSettings> {
    let usual = MapThreadsSettings::default();
    Ok(MapThreadsSettings {
        threads: super::distinct(&args.threads),
        bytes: one_size(&args.sizes, usual.bytes)?,
        rounds: args.pace.rounds.unwrap_or(usual.rounds),
        round_ms: args.pace.round_ms.unwrap_or(usual.round_ms),
        pairs: args.pairs,
        pin: args.pin,
    })
}

/// The size that the user gave, or the usual one.
fn one_size(sizes: &[Bytes], usual: Bytes) -> anyhow::Result<Bytes> {
    match sizes {
        [] => Ok(usual),
        [size] => Ok(*size),
        _ => bail!("--size has {} sizes; expected one with --threads", sizes.len()),
    }
}
