//! `iotoll reproduce`: published figures beside ours.

use crate::cli::Reproduce;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use indicatif::ProgressBar;
use model::{Changes, Reproduction, StudyError};
use serde::Serialize;

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    made_by: &'static str,
    reproductions: &'a [Reproduction],
}

pub(crate) fn run(args: &Reproduce) -> anyhow::Result<Outcome> {
    let all: Vec<String> = model::studies().map(str::to_owned).collect();
    let wanted = if args.studies.is_empty() { &all } else { &args.studies };
    let changes = Changes::new(args.changes.iter().cloned())?;
    let reproductions = reproduce(wanted, &changes)?;
    if let Some(path) = &args.html {
        WholeFile::write(path, report::reproduction_page(&reproductions, made_by()).as_bytes())?;
    }
    if args.json {
        let (schema, made_by) = (model::SCHEMA, made_by());
        output::json(&Document { schema, made_by, reproductions: &reproductions })?;
    } else {
        let shown =
            reproductions.iter().map(|one| report::reproduction(one, output::width(), output::style()));
        output::report(shown.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Outcome::of(reproductions.iter().map(Reproduction::misses).sum()))
}

/// Runs the studies side by side; they share nothing.
fn reproduce(wanted: &[String], changes: &Changes) -> Result<Vec<Reproduction>, StudyError> {
    let bar = ProgressBar::new(wanted.len() as u64).with_message("studies, a few seconds each");
    bar.tick();
    let study = |name| {
        let one = model::reproduce_with(name, changes);
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
