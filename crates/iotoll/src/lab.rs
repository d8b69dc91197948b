//! `iotoll lab`: measures toll sheets on real kernels in QEMU, shows and compares them.

pub(crate) mod diff;
mod fetch;
mod flame;
pub(crate) mod list;
mod run;
mod run_progress;
pub(crate) mod show;

use crate::cli::Lab;
use crate::input;
use crate::inspect::program_version;
use crate::output::Outcome;
use crate::whole_file::WholeFile;
use anyhow::Context;
use lab::kernel::{KernelChoice, Series};
use lab::preset::{Preset, Presets};
use std::path::Path;
use toll::{PriceList, TollSheet};

/// Runs a command of `iotoll lab`.
pub(crate) fn run(command: &Lab) -> anyhow::Result<Outcome> {
    match command {
        Lab::List(args) => list::run(args),
        Lab::Fetch(args) => fetch::run(args),
        Lab::Run(args) => run::run(args),
        Lab::Show(args) => show::run(args),
        Lab::Diff(args) => diff::run(args),
    }
}

/// The built-in presets, and those of a file if one is given.
fn read_presets(file: Option<&Path>) -> anyhow::Result<Presets> {
    let built_in = Presets::built_in()?;
    let Some(file) = file else { return Ok(built_in) };
    let text = input::read_text(file, input::DESCRIPTION_BYTES_MAX, "list of presets")?;
    Ok(built_in.merged_with(Presets::parse(&text, &file.display().to_string())?))
}

/// The architecture and kernel series that a preset runs on.
fn kernel_choice(preset: &Preset) -> anyhow::Result<KernelChoice> {
    let series: Series = preset.series.parse().with_context(|| format!("preset {}", preset.name))?;
    Ok(KernelChoice { arch: preset.arch, series })
}

/// Writes the HTML page of toll sheets, if `--html` names a file.
fn write_page(sheets: &[TollSheet], file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    WholeFile::write(file, report::toll_page(sheets, PriceList::builtin(), program_version()).as_bytes())?;
    Ok(())
}
