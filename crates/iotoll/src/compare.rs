//! `iotoll compare`: two documents of watch, bench or lab, before and after a change.

use crate::cli::Compare;
use crate::input;
use crate::inspect::program_version;
use crate::lab::diff::{Difference, Sheet};
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use ::compare::{Compared, Comparison, SCHEMA};
use anyhow::bail;
use report::Page;
use serde::Serialize;
use std::path::Path;

/// Size limit of a document. An hour of `iotoll watch` on a host with ten busy adapters has some 50 MiB.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

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

/// Reads and compares two documents.
pub(crate) fn run(args: &Compare) -> anyhow::Result<Outcome> {
    let read = |path: &Path| input::read_text(path, DOCUMENT_BYTES_MAX, "document");
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let names = [&args.before, &args.after].map(|path| path.display().to_string());
    match ::compare::compare((&before, &names[0]), (&after, &names[1]))? {
        Compared::Sheets(sheets) => {
            let [before, after] = &*sheets;
            let (before, after) = (Sheet::new(&args.before, before), Sheet::new(&args.after, after));
            let difference = Difference::new(before, after, &args.limit)?;
            write_page(args, || difference.page())?;
            difference.print(args.json)
        }
        Compared::Figures(comparison) => show(args, &comparison),
    }
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
