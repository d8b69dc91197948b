//! `iotoll reproduce`: compares published figures with the model's.

use crate::cli::Reproduce;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use indicatif::ProgressBar;
use model::{Changes, Reproduction, Reproductions, StudyError};
use report::Stories;

/// Runs the studies, and prints or writes the comparison with the published figures.
pub(crate) fn run(args: &Reproduce) -> anyhow::Result<Outcome> {
    let all: Vec<String> = model::studies().map(str::to_owned).collect();
    let wanted = if args.studies.is_empty() { &all } else { &args.studies };
    let changes = Changes::new(args.changes.iter().cloned())?;
    let document = run_studies(wanted, &changes, args.seeds)?;
    let reproductions = &document.reproductions;
    if let Some(path) = &args.html {
        let page = report::reproductions(reproductions, story_display(args));
        WholeFile::write(path, report::html(&page, "iotoll · reproduce", program_version()).as_bytes())?;
    }
    if args.json {
        output::print_json(&document)?;
    } else {
        output::print_page(&report::reproductions(reproductions, story_display(args)))?;
    }
    Ok(Outcome::of_findings(reproductions.iter().map(Reproduction::misses).sum()))
}

/// Shows the stories of studies that the user named; folds them if all studies run.
fn story_display(args: &Reproduce) -> Stories {
    if args.studies.is_empty() { Stories::Folded } else { Stories::Open }
}

/// Runs studies with a progress bar.
fn run_studies(
    wanted: &[String],
    changes: &Changes,
    seeds: u32,
) -> Result<Reproductions<'static>, StudyError> {
    let bar = ProgressBar::new(wanted.len() as u64).with_message("studies, seconds to a minute each");
    bar.tick();
    let all = Reproductions::run(wanted, changes, seeds, program_version(), &|| bar.inc(1));
    bar.finish_and_clear();
    all
}
