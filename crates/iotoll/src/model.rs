//! `iotoll model`: simulates the machine that a file describes.

use crate::cli::{Model, ModelRun};
use crate::input;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::prices;
use anyhow::{Context, bail};
use model::block::BlockExperiment;
use model::infiniband::AdaptersExperiment;
use model::infiniband::trace::Trace;
use model::network::HostsExperiment;
use model::{Answer, Description, Document, FileEvidence, PricedExperiment};
use report::Page;
use std::path::PathBuf;

/// Runs `iotoll model run` or `iotoll model list`.
pub(crate) fn run(command: &Model) -> anyhow::Result<Outcome> {
    match command {
        Model::Run(args) => run_experiment(args),
        Model::List => print_studies(),
    }
}

/// Simulates the machine of a file and prints the answer.
fn run_experiment(args: &ModelRun) -> anyhow::Result<Outcome> {
    let file = args.file.display().to_string();
    let text = input::read_text(&args.file, input::DESCRIPTION_BYTES_MAX, "experiment")?;
    let description = Description::read(&text, &file)?;
    if let Some(problem) = option_mismatch(&description, args) {
        bail!("{file} describes {problem}");
    }
    let (description, evidence) = with_prices(description, text, &args.prices, &file)?;
    let description = with_load(description, args, &file)?;
    let answer = description.run().map_err(|error| match error.names_its_file() {
        true => anyhow::Error::from(error),
        false => anyhow::Error::from(error).context(file.clone()),
    })?;
    if args.json {
        output::print_json(&Document::new(&answer, &file, &evidence, program_version()))?;
    } else {
        output::print_page(&page(&answer, &file, &evidence))?;
    }
    Ok(Outcome::Fine)
}

/// The experiment with the load of another file, if an option names one.
fn with_load(description: Description, args: &ModelRun, file: &str) -> anyhow::Result<Description> {
    Ok(match description {
        Description::Hosts(hosts) => Description::Hosts(Box::new(with_profile(*hosts, args)?)),
        Description::Block(host) => Description::Block(Box::new(with_jobs(*host, args)?)),
        Description::Adapters(adapters) => {
            Description::Adapters(Box::new(with_trace(*adapters, args, file)?))
        }
        other => other,
    })
}

/// An answer for people.
fn page(answer: &Answer, file: &str, evidence: &FileEvidence) -> Page {
    match answer {
        Answer::Engine(answer) => report::model_answer(answer, file, evidence),
        Answer::MemoryTypes(answer) => report::memory_answer(answer, file, evidence),
        Answer::Network(answer) => report::hosts_answer(answer, file, evidence),
        Answer::Block(answer) => report::block_answer(answer, file, evidence),
        Answer::FlashArray(answer) => report::flash_array_answer(answer, file, evidence),
        Answer::Infiniband(answer) => report::adapters_answer(answer, file, evidence),
    }
}

/// The experiment with the measured prices of `--prices`, if it is given, and the evidence of its values.
fn with_prices(
    description: Description,
    text: String,
    paths: &[PathBuf],
    file: &str,
) -> anyhow::Result<(Description, FileEvidence)> {
    let Some(list) = prices::read_combined(paths)? else {
        let evidence = FileEvidence::of(&description, &text)?;
        return Ok((description, evidence));
    };
    let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let files = files.join(", ");
    let priced = PricedExperiment::new(&description, &text, file, &list, &files)?;
    // A price may be no value that the model takes: an instruction of 0 ns.
    let description = Description::read(&priced.text, file).with_context(|| format!("prices of {files}"))?;
    let evidence = FileEvidence::with_prices(&description, &priced.text, priced.prices)?;
    Ok((description, evidence))
}

/// Why an option does not fit the machine described; `None` if all fit.
fn option_mismatch(description: &Description, args: &ModelRun) -> Option<String> {
    let described = description.words();
    if args.profile.is_some() && !matches!(description, Description::Hosts(_)) {
        let expected = "expected two hosts, as in experiments/two-hosts.toml";
        return Some(format!("{described}, which can't run a --profile; {expected}"));
    }
    if args.jobs.is_some() && !matches!(description, Description::Block(_)) {
        let expected = "expected a host with a disk, as in experiments/nvme.toml";
        return Some(format!("{described}, which can't run --jobs; {expected}"));
    }
    if args.trace.is_some() && !matches!(description, Description::Adapters(_)) {
        let expected = "expected InfiniBand adapters, as in experiments/infiniband.toml";
        return Some(format!("{described}, which can't run a --trace; {expected}"));
    }
    None
}

/// The experiment with the jobs of `--jobs`, if it is given.
fn with_jobs(host: BlockExperiment, args: &ModelRun) -> anyhow::Result<BlockExperiment> {
    let Some(path) = &args.jobs else { return Ok(host) };
    let text = input::read_text(path, input::DESCRIPTION_BYTES_MAX, "job file")?;
    Ok(host.with_jobs(&text, &path.display().to_string()))
}

/// The experiment with the trace of `--trace`, if it is given. Fails if the experiment has no benchmark and needs one.
fn with_trace(
    adapters: AdaptersExperiment,
    args: &ModelRun,
    file: &str,
) -> anyhow::Result<AdaptersExperiment> {
    let Some(path) = &args.trace else {
        if adapters.needs_trace() {
            bail!("{file} has [processes] without a benchmark; expected one, or --trace FILE");
        }
        return Ok(adapters);
    };
    let text = input::read_text(path, input::DESCRIPTION_BYTES_MAX, "trace")?;
    let trace = Trace::read(&text, &path.display().to_string())?;
    let with_trace = adapters.with_trace(trace);
    with_trace.with_context(|| format!("{file} has no [processes]; expected them to run the trace"))
}

/// The experiment with the uperf profile of `--profile`, if it is given.
fn with_profile(hosts: HostsExperiment, args: &ModelRun) -> anyhow::Result<HostsExperiment> {
    let Some(path) = &args.profile else { return Ok(hosts) };
    let profile = input::read_profile(path, &args.variables.iter().cloned().collect())?;
    Ok(hosts.with_profile(&profile)?)
}

/// Prints the names of the studies, one per line.
fn print_studies() -> anyhow::Result<Outcome> {
    output::print_text(&model::studies().collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Fine)
}
