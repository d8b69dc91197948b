//! Toll sheets of the user's own, in a folder.

use anyhow::{Context, bail};
use host::Digest;
use std::fs::{self, File};
use std::io::Read;
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
        let file = path.display().to_string();
        digest.add(&TollSheet::read(&text(&path, &file)?, &file)?);
    }
    if digest.sheets.is_empty() {
        bail!(
            "{}: no toll sheet in it, expected *.json as `iotoll lab run -o` writes them",
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

fn text(path: &Path, file: &str) -> anyhow::Result<String> {
    let unreadable = || format!("can't read toll sheet {file}");
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path).with_context(unreadable)?.is_file() {
        bail!("{file}: not a regular file, expected a toll sheet");
    }
    let mut text = String::new();
    let bytes = File::open(path).with_context(unreadable)?.take(SHEET_BYTES_MAX + 1);
    let read = { bytes }.read_to_string(&mut text).with_context(unreadable)?;
    if read as u64 > SHEET_BYTES_MAX {
        bail!("{file}: larger than {} MiB, expected a toll sheet of less", SHEET_BYTES_MAX >> 20);
    }
    Ok(text)
}
