//! `iotoll model`: what follows from a machine that a file describes.

use crate::cli::{Model, ModelRun};
use crate::input;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use model::{Answer, Experiment};
use serde::Serialize;

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    made_by: &'static str,
    file: String,
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
    let answer = Experiment::read(&text, &file)?.run();
    if args.json {
        output::json(&Document { schema: "iotoll.model/1", made_by: made_by(), file, answer: &answer })?;
    } else {
        output::data(&report::model_answer(&answer, &file, output::width(), output::style()))?;
    }
    Ok(Outcome::Fine)
}

fn list() -> anyhow::Result<Outcome> {
    output::data(&model::families().collect::<Vec<_>>().join("\n"))?;
    Ok(Outcome::Fine)
}
