//! `iotoll reproduce`: compares published figures with the model's.

use crate::cli::Reproduce;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use indicatif::ProgressBar;
use model::{Changes, Reproduction, StudyError};
use report::Stories;
use serde::Serialize;

/// What `iotoll reproduce --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.reproduction/4`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The studies.
    reproductions: &'a [Reproduction],
}

/// Runs the studies, and prints or writes the comparison with the published figures.
pub(crate) fn run(args: &Reproduce) -> anyhow::Result<Outcome> {
    let all: Vec<String> = model::studies().map(str::to_owned).collect();
    let wanted = if args.studies.is_empty() { &all } else { &args.studies };
    let changes = Changes::new(args.changes.iter().cloned())?;
    let reproductions = run_studies(wanted, &changes, args.seeds)?;
    if let Some(path) = &args.html {
        let page = report::reproductions(&reproductions, story_display(args));
        WholeFile::write(path, report::html(&page, "iotoll · reproduce", program_version()).as_bytes())?;
    }
    if args.json {
        let (schema, made_by) = (model::SCHEMA, program_version());
        output::print_json(&Document { schema, made_by, reproductions: &reproductions })?;
    } else {
        output::print_page(&report::reproductions(&reproductions, story_display(args)))?;
    }
    Ok(Outcome::of_findings(reproductions.iter().map(Reproduction::misses).sum()))
}

/// Shows the stories of studies that the user named; folds them if all studies run.
fn story_display(args: &Reproduce) -> Stories {
    if args.studies.is_empty() { Stories::Folded } else { Stories::Open }
}

/// Runs studies, each in a thread of its own.
fn run_studies(wanted: &[String], changes: &Changes, seeds: u32) -> Result<Vec<Reproduction>, StudyError> {
    let bar = ProgressBar::new(wanted.len() as u64).with_message("studies, seconds to a minute each");
    bar.tick();
    let study = |name| {
        let one = model::reproduce_with(name, changes, seeds);
        bar.inc(1);
        one
    };
    let all = std::thread::scope(|scope| {
        let running: Vec<_> = wanted.iter().map(|name| scope.spawn(|| study(name))).collect();
        let ended = running
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect()
    });
    bar.finish_and_clear();
    all
}
