//! Toll sheets of the user's own, in a folder.

use crate::input;
use anyhow::{Context, bail};
use host::Digest;
use std::fs;
use std::path::{Path, PathBuf};
use toll::TollSheet;

/// More than any sheet has: those of the lab are some hundred KiB.
const SHEET_BYTES_MAX: u64 = 64 << 20;
/// The layout of sheets, which lies beside them.
const NOT_A_SHEET: &str = "schema.json";

/// Reads all toll sheets of a folder, `*.json`.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Digest> {
    let mut digest = Digest::default();
    for path in sheets(folder)? {
        let file = path.display();
        // Opening a pipe that somebody left there would wait for its writer.
        if !fs::metadata(&path).with_context(|| format!("can't read toll sheet {file}"))?.is_file() {
            bail!("{file}: not a regular file, expected a toll sheet");
        }
        digest.add(&sheet(&path)?);
    }
    if digest.sheets.is_empty() {
        bail!(
            "{}: no toll sheet in it, expected *.json as `iotoll lab run -o` writes them, one with a workload that inspections ask for",
            folder.display()
        );
    }
    Ok(digest)
}

fn sheets(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let place = || format!("can't list toll sheets of {}", folder.display());
    let entries = fs::read_dir(folder).with_context(place)?;
    let paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().with_context(place)?;
    let is_sheet =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json") && !path.ends_with(NOT_A_SHEET);
    let mut sheets: Vec<PathBuf> = paths.into_iter().filter(is_sheet).collect();
    // The order decides between sheets that are equally near.
    sheets.sort();
    Ok(sheets)
}

/// Reads a toll sheet, from a file or a pipe.
pub(crate) fn sheet(path: &Path) -> anyhow::Result<TollSheet> {
    let file = path.display().to_string();
    let text = input::text(path, SHEET_BYTES_MAX, "toll sheet")?;
    Ok(TollSheet::read(&text, &file)?)
}
