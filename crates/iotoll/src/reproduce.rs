//! `iotoll reproduce`: published figures beside ours.

use crate::cli::Reproduce;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use model::{FamilyError, Reproduction};
use serde::Serialize;

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    made_by: &'static str,
    reproductions: &'a [Reproduction],
}

pub(crate) fn run(args: &Reproduce) -> anyhow::Result<Outcome> {
    let all: Vec<String> = model::families().map(str::to_owned).collect();
    let wanted = if args.families.is_empty() { &all } else { &args.families };
    let changes = args.changes.iter().cloned().collect();
    let reproductions: Vec<Reproduction> = wanted
        .iter()
        .map(|family| model::reproduce_with(family, &changes))
        .collect::<Result<_, FamilyError>>()?;
    if let Some(path) = &args.html {
        output::file(path, report::reproduction_page(&reproductions, made_by()).as_bytes())?;
    }
    if args.json {
        let (schema, made_by) = (model::SCHEMA, made_by());
        output::json(&Document { schema, made_by, reproductions: &reproductions })?;
    } else {
        let shown =
            reproductions.iter().map(|one| report::reproduction(one, output::width(), output::style()));
        output::data(&shown.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(Outcome::of(reproductions.iter().map(Reproduction::misses).sum()))
}
