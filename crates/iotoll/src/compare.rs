//! `iotoll compare`: documents of watch, bench or lab, one or several before a change and after it.

use crate::cli::Compare;
use crate::input;
use crate::inspect::program_version;
use crate::lab::diff::{Difference, Sheet};
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use ::compare::{Compared, Comparison, SCHEMA, compare_runs};
use anyhow::{Context, bail};
use report::Page;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Size limit of a document. An hour of `iotoll watch` on a host with ten busy adapters has some 50 MiB.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;
/// Size limit of all documents together, which are in memory at once: two of the largest.
const ALL_BYTES_MAX: u64 = 2 * DOCUMENT_BYTES_MAX;

/// What `iotoll compare --json` prints, except of toll sheets.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// The document's schema, with its version.
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

/// Reads and compares documents.
pub(crate) fn run(args: &Compare) -> anyhow::Result<Outcome> {
    let (before, after) = paths(args);
    let mut bytes_left = ALL_BYTES_MAX;
    let (texts_before, texts_after) = (read(&before, &mut bytes_left)?, read(&after, &mut bytes_left)?);
    match compare_runs(&named(&texts_before), &named(&texts_after))? {
        Compared::Sheets(sheets) => {
            let [sheet_before, sheet_after] = &*sheets;
            let (before, after) =
                (Sheet::new(first(&before), sheet_before), Sheet::new(first(&after), sheet_after));
            let difference = Difference::new(before, after, &args.limit)?;
            write_page(args, || difference.page())?;
            difference.print(args.json)
        }
        Compared::Figures(comparison) => show(args, &comparison),
    }
}

/// The documents of each side, however they were given.
fn paths(args: &Compare) -> (Vec<&Path>, Vec<&Path>) {
    let before = args.before.iter().chain(&args.runs_before);
    let after = args.after.iter().chain(&args.runs_after);
    (before.map(PathBuf::as_path).collect(), after.map(PathBuf::as_path).collect())
}

/// Texts with the names of their files.
fn read(paths: &[&Path], bytes_left: &mut u64) -> anyhow::Result<Vec<(String, String)>> {
    let read = |path: &&Path| {
        let (text, file) =
            (input::read_text(path, DOCUMENT_BYTES_MAX, "document")?, path.display().to_string());
        let left = bytes_left.checked_sub(text.len() as u64);
        *bytes_left = left.with_context(|| {
            format!(
                "{file}: with it the documents are larger than {} MiB; expected fewer or smaller documents",
                ALL_BYTES_MAX >> 20
            )
        })?;
        Ok((text, file))
    };
    paths.iter().map(read).collect()
}

fn named(texts: &[(String, String)]) -> Vec<(&str, &str)> {
    texts.iter().map(|(text, file)| (text.as_str(), file.as_str())).collect()
}

/// The path of the only sheet of a side.
fn first<'p>(paths: &[&'p Path]) -> &'p Path {
    paths.first().copied().unwrap_or(Path::new(""))
}

/// Prints a comparison.
fn show(args: &Compare, comparison: &Comparison) -> anyhow::Result<Outcome> {
    if args.limit.is_given() {
        bail!(
            "--more-than, --more-than-percent and --more-events-than limit what toll sheets may grow; expected toll sheets with them"
        );
    }
    write_page(args, || report::comparison(comparison))?;
    match args.json {
        true => output::print_json(&Document { schema: SCHEMA, made_by: program_version(), comparison })?,
        false => output::print_page(&report::comparison(comparison))?,
    }
    Ok(Outcome::Fine)
}

/// Writes the HTML page, if one is wanted.
fn write_page(args: &Compare, page: impl Fn() -> Page) -> anyhow::Result<()> {
    let Some(file) = &args.html else { return Ok(()) };
    WholeFile::write(file, report::html(&page(), "iotoll · compare", program_version()).as_bytes())?;
    Ok(())
}
