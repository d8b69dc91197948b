//! `iotoll lab`: toll sheets.

mod diff;
mod fetch;
mod flame;
mod list;
mod run;
mod show;

pub(crate) use flame::FlameFile;

use crate::cli::Lab;
use crate::input;
use crate::inspect::made_by;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::Context;
use lab::kernel::{KernelChoice, Series};
use lab::preset::{Preset, Presets};
use std::path::Path;
use toll::TollSheet;

pub(crate) fn run(command: &Lab) -> anyhow::Result<Outcome> {
    match command {
        Lab::List(args) => list::run(args),
        Lab::Fetch(args) => fetch::run(args),
        Lab::Run(args) => run::run(args),
        Lab::Show(args) => show::run(args),
        Lab::Diff(args) => diff::run(args),
    }
}

/// The presets built in, and those of a file.
fn presets(file: Option<&Path>) -> anyhow::Result<Presets> {
    let built_in = Presets::built_in()?;
    let Some(file) = file else { return Ok(built_in) };
    let text = input::text(file, input::DESCRIPTION_BYTES_MAX, "list of presets")?;
    Ok(built_in.and(Presets::read(&text, &file.display().to_string())?))
}

/// The kernel that a preset asks for.
fn choice(preset: &Preset) -> anyhow::Result<KernelChoice> {
    let series: Series = preset.series.parse().with_context(|| format!("preset {}", preset.name))?;
    Ok(KernelChoice { arch: preset.arch, series })
}

/// Writes the page of toll sheets, if one is wanted.
fn page(sheets: &[TollSheet], file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    WholeFile::write(file, report::toll_page(sheets, made_by()).as_bytes())?;
    output::say(&format!("{} written", file.display()));
    Ok(())
}
