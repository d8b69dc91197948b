//! `iotoll lab`: toll sheets.

mod diff;
mod show;

use crate::cli::Lab;
use crate::output::Outcome;
use anyhow::Context;
use std::path::Path;
use toll::TollSheet;

pub(crate) fn run(command: &Lab) -> anyhow::Result<Outcome> {
    match command {
        Lab::Show(args) => show::run(args),
        Lab::Diff(args) => diff::run(args),
    }
}

/// Reads a toll sheet.
fn sheet(path: &Path) -> anyhow::Result<TollSheet> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read toll sheet {file}"))?;
    Ok(TollSheet::read(&text, &file)?)
}
