//! Reads toll sheets: one file, or all of a folder.

use crate::input;
use anyhow::{Context, bail};
use host::Digest;
use std::fs;
use std::path::{Path, PathBuf};
use toll::TollSheet;

/// Size limit of a toll sheet. The lab's have some hundred KiB.
const SHEET_BYTES_MAX: u64 = 64 << 20;
/// The JSON Schema of toll sheets, which may be in the same folder.
const SCHEMA_FILE: &str = "schema.json";

/// Reads all toll sheets `*.json` of a folder. Fails if there is none.
pub(crate) fn read_folder(folder: &Path) -> anyhow::Result<Digest> {
    let mut digest = Digest::default();
    for path in sheet_paths(folder)? {
        let file = path.display();
        // Opening a named pipe would block until it has a writer.
        if !fs::metadata(&path).with_context(|| format!("can't read toll sheet {file}"))?.is_file() {
            bail!("{file}: not a regular file; expected a toll sheet");
        }
        digest.add(&read_sheet(&path)?);
    }
    if digest.sheets.is_empty() {
        bail!(
            "{}: no toll sheet that predictions can use; expected *.json files as `iotoll lab run -o` writes them",
            folder.display()
        );
    }
    Ok(digest)
}

/// Paths of the toll sheets in a folder, sorted.
fn sheet_paths(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let place = || format!("can't list toll sheets of {}", folder.display());
    let entries = fs::read_dir(folder).with_context(place)?;
    let paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().with_context(place)?;
    let is_sheet =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json") && !path.ends_with(SCHEMA_FILE);
    let mut sheets: Vec<PathBuf> = paths.into_iter().filter(is_sheet).collect();
    // Of equally suitable sheets a prediction takes the first, so their order must not depend on the file system.
    sheets.sort();
    Ok(sheets)
}

/// Reads a toll sheet, from a file or a pipe.
pub(crate) fn read_sheet(path: &Path) -> anyhow::Result<TollSheet> {
    let file = path.display().to_string();
    let text = input::read_text(path, SHEET_BYTES_MAX, "toll sheet")?;
    Ok(TollSheet::read(&text, &file)?)
}
