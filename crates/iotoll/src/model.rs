//! `iotoll model`: what follows from a machine that a file describes.

use crate::cli::{Model, ModelRun};
use crate::input;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use anyhow::bail;
use model::Description;
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
    match Description::read(&text, &file)? {
        Description::Engine(_) if args.profile.is_some() => {
            bail!(
                "{file} describes an engine, which carries out no profile; expected two hosts, as experiments/two-hosts.toml has them"
            )
        }
        Description::Engine(engine) => {
            let answer = engine.run();
            show(args, &file, &answer, || report::model_answer(&answer, &file, width, style))
        }
        Description::Hosts(hosts) => {
            let answer = with_profile(*hosts, args)?.run()?;
            show(args, &file, &answer, || report::hosts_answer(&answer, &file, width, style))
        }
    }
}

fn with_profile(hosts: HostsExperiment, args: &ModelRun) -> anyhow::Result<HostsExperiment> {
    let Some(path) = &args.profile else { return Ok(hosts) };
    let text = input::text(path, input::DESCRIPTION_BYTES_MAX, "profile")?;
    let variables = args.variables.iter().cloned().collect();
    let profile = Profile::read(&text, &path.display().to_string(), &variables)?;
    Ok(hosts.with_profile(&profile)?)
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
        output::data(&words())?;
    }
    Ok(Outcome::Fine)
}

fn list() -> anyhow::Result<Outcome> {
    output::data(&model::families().collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Fine)
}
