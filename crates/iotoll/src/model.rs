//! `iotoll model`: simulates the machine that a file describes.

use crate::cli::{Model, ModelRun};
use crate::input;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::prices;
use anyhow::{Context, bail};
use model::block::{BlockAnswer, BlockExperiment, JobsError};
use model::flash_array::FlashArrayAnswer;
use model::infiniband::trace::Trace;
use model::infiniband::{AdaptersAnswer, AdaptersExperiment};
use model::memory_type::MemoryAnswer;
use model::network::{HostsAnswer, HostsExperiment};
use model::{Description, EngineAnswer, FileEvidence, PricedExperiment};
use report::Page;
use serde::Serialize;
use std::path::PathBuf;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.model/3";

/// What `iotoll model run --json` prints. `kind` names the one answer that is not null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.model/3`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The file of the experiment.
    file: &'a str,
    /// Which of the answers is given.
    kind: Kind,
    /// Where the values of the file come from.
    evidence: &'a FileEvidence,
    /// The answer about an adapter's DMA engine.
    engine: Option<&'a EngineAnswer>,
    /// The answer about memory types.
    memory_types: Option<&'a MemoryAnswer>,
    /// The answer about two hosts and their network.
    network: Option<&'a HostsAnswer>,
    /// The answer about a host with a disk.
    block: Option<&'a BlockAnswer>,
    /// The answer about a host with a flash array.
    flash_array: Option<&'a FlashArrayAnswer>,
    /// The answer about InfiniBand adapters.
    infiniband: Option<&'a AdaptersAnswer>,
}

/// The kind of machine that an experiment describes.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Engine,
    MemoryTypes,
    Network,
    Block,
    FlashArray,
    Infiniband,
}

impl<'a> Document<'a> {
    /// A document in which all answers are null.
    fn new(file: &'a str, kind: Kind, evidence: &'a FileEvidence) -> Self {
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            file,
            kind,
            evidence,
            engine: None,
            memory_types: None,
            network: None,
            block: None,
            flash_array: None,
            infiniband: None,
        }
    }
}

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
    match description {
        Description::Engine(engine) => {
            let answer = engine.run().with_context(|| file.clone())?;
            let document =
                Document { engine: Some(&answer), ..Document::new(&file, Kind::Engine, &evidence) };
            print_answer(args, &document, || report::model_answer(&answer, &file, &evidence))
        }
        Description::Memory(memory) => {
            let answer = memory.run()?;
            let document = Document {
                memory_types: Some(&answer),
                ..Document::new(&file, Kind::MemoryTypes, &evidence)
            };
            print_answer(args, &document, || report::memory_answer(&answer, &file, &evidence))
        }
        Description::Hosts(hosts) => {
            let answer = with_profile(*hosts, args)?.run().with_context(|| file.clone())?;
            let document =
                Document { network: Some(&answer), ..Document::new(&file, Kind::Network, &evidence) };
            print_answer(args, &document, || report::hosts_answer(&answer, &file, &evidence))
        }
        Description::Block(host) => {
            let answer = with_jobs(*host, args)?.run().map_err(|error| match error {
                JobsError::Block(error) => anyhow::Error::from(error).context(file.clone()),
                // Those of a job file name it.
                error @ (JobsError::Fio(_) | JobsError::NotModelled { .. }) => error.into(),
            })?;
            let document = Document { block: Some(&answer), ..Document::new(&file, Kind::Block, &evidence) };
            print_answer(args, &document, || report::block_answer(&answer, &file, &evidence))
        }
        Description::FlashArray(host) => {
            let answer = host.run().with_context(|| file.clone())?;
            let document =
                Document { flash_array: Some(&answer), ..Document::new(&file, Kind::FlashArray, &evidence) };
            print_answer(args, &document, || report::flash_array_answer(&answer, &file, &evidence))
        }
        Description::Adapters(adapters) => {
            let answer = with_trace(*adapters, args, &file)?.run()?;
            let document =
                Document { infiniband: Some(&answer), ..Document::new(&file, Kind::Infiniband, &evidence) };
            print_answer(args, &document, || report::adapters_answer(&answer, &file, &evidence))
        }
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

/// Prints the answer as JSON or as a page.
fn print_answer(
    args: &ModelRun,
    document: &Document<'_>,
    page: impl FnOnce() -> Page,
) -> anyhow::Result<Outcome> {
    if args.json {
        output::print_json(document)?;
    } else {
        output::print_page(&page())?;
    }
    Ok(Outcome::Fine)
}

/// Prints the names of the studies, one per line.
fn print_studies() -> anyhow::Result<Outcome> {
    output::print_text(&model::studies().collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Fine)
}
