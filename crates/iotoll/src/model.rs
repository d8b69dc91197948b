//! `iotoll model`: what follows from a machine that a file describes.

use crate::cli::{Model, ModelRun};
use crate::input;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use anyhow::{Context, bail};
use model::Description;
use model::block::BlockExperiment;
use model::infiniband::AdaptersExperiment;
use model::infiniband::trace::Trace;
use model::network::HostsExperiment;
use model::uperf::Profile;
use serde::Serialize;

/// The document.
#[derive(Serialize)]
struct Document<'a, Answer> {
    schema: &'static str,
    made_by: &'static str,
    file: &'a str,
    #[serde(flatten)]
    answer: &'a Answer,
}

pub(crate) fn run(command: &Model) -> anyhow::Result<Outcome> {
    match command {
        Model::Run(args) => experiment(args),
        Model::List => list(),
    }
}

fn experiment(args: &ModelRun) -> anyhow::Result<Outcome> {
    let file = args.file.display().to_string();
    let text = input::text(&args.file, input::DESCRIPTION_BYTES_MAX, "experiment")?;
    let (width, style) = (output::width(), output::style());
    let description = Description::read(&text, &file)?;
    if let Some(words) = misfit(&description, args) {
        bail!("{file} describes {words}");
    }
    match description {
        Description::Engine(engine) => {
            let answer = engine.run();
            show(args, &file, &answer, || report::model_answer(&answer, &file, width, style))
        }
        Description::Memory(memory) => {
            let answer = memory.run()?;
            show(args, &file, &answer, || report::memory_answer(&answer, &file, width, style))
        }
        Description::Hosts(hosts) => {
            let answer = with_profile(*hosts, args)?.run()?;
            show(args, &file, &answer, || report::hosts_answer(&answer, &file, width, style))
        }
        Description::Block(host) => {
            let answer = with_jobs(*host, args)?.run()?;
            show(args, &file, &answer, || report::block_answer(&answer, &file, width, style))
        }
        Description::FlashArray(host) => {
            let answer = host.run().with_context(|| file.clone())?;
            show(args, &file, &answer, || report::flash_array_answer(&answer, &file, width, style))
        }
        Description::Adapters(adapters) => {
            let answer = with_trace(*adapters, args, &file)?.run()?;
            show(args, &file, &answer, || report::adapters_answer(&answer, &file, width, style))
        }
    }
}

/// What is described, where it can't carry out what was asked for.
fn misfit(description: &Description, args: &ModelRun) -> Option<String> {
    let what = match description {
        Description::Engine(_) => "an engine",
        Description::Hosts(_) => "two hosts",
        Description::Block(_) => "a host with a disk",
        Description::FlashArray(_) => "a host with an array",
        Description::Memory(_) => "memory types",
        Description::Adapters(_) => "InfiniBand adapters",
    };
    if args.profile.is_some() && !matches!(description, Description::Hosts(_)) {
        let expected = "expected two hosts, as experiments/two-hosts.toml has them";
        return Some(format!("{what}, and no profile can be carried out there; {expected}"));
    }
    if args.jobs.is_some() && !matches!(description, Description::Block(_)) {
        let expected = "expected a host with a disk, as experiments/nvme.toml has it";
        return Some(format!("{what}, and no jobs can be run there; {expected}"));
    }
    if args.trace.is_some() && !matches!(description, Description::Adapters(_)) {
        let expected = "expected InfiniBand adapters, as experiments/infiniband.toml has them";
        return Some(format!("{what}, and no trace can be carried out there; {expected}"));
    }
    None
}

fn with_jobs(host: BlockExperiment, args: &ModelRun) -> anyhow::Result<BlockExperiment> {
    let Some(path) = &args.jobs else { return Ok(host) };
    let text = input::text(path, input::DESCRIPTION_BYTES_MAX, "job file")?;
    Ok(host.with_jobs(&text, &path.display().to_string()))
}

fn with_trace(
    adapters: AdaptersExperiment,
    args: &ModelRun,
    file: &str,
) -> anyhow::Result<AdaptersExperiment> {
    let Some(path) = &args.trace else {
        if adapters.wants_trace() {
            bail!("{file} has [processes] without a benchmark; expected one, or --trace FILE");
        }
        return Ok(adapters);
    };
    let text = input::text(path, input::DESCRIPTION_BYTES_MAX, "trace")?;
    let trace = Trace::read(&text, &path.display().to_string())?;
    let with_trace = adapters.with_trace(trace);
    with_trace.with_context(|| format!("{file} has no [processes], which carry out a trace"))
}

fn with_profile(hosts: HostsExperiment, args: &ModelRun) -> anyhow::Result<HostsExperiment> {
    let Some(path) = &args.profile else { return Ok(hosts) };
    let text = input::text(path, input::DESCRIPTION_BYTES_MAX, "profile")?;
    let variables = args.variables.iter().cloned().collect();
    let file = path.display().to_string();
    let profile = Profile::read(&text, &file, &variables)?;
    hosts.with_profile(&profile).context(file)
}

fn show(
    args: &ModelRun,
    file: &str,
    answer: &impl Serialize,
    words: impl FnOnce() -> String,
) -> anyhow::Result<Outcome> {
    if args.json {
        output::json(&Document { schema: "iotoll.model/1", made_by: made_by(), file, answer })?;
    } else {
        output::report(words())?;
    }
    Ok(Outcome::Fine)
}

fn list() -> anyhow::Result<Outcome> {
    output::data(&model::studies().collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Fine)
}
