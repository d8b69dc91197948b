//! `iotoll lab list`: presets with their kernels, and workloads.

use crate::cli::LabList;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use lab::kernel::{Cache, Kernel};
use lab::preset::Preset;
use lab::workload::Workload;
use report::LabPreset;
use serde::Serialize;
use toll::DmaPath;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.lab-list/2";

/// What `iotoll lab list --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.lab-list/2`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The presets.
    presets: Vec<Row<'a>>,
    /// The workloads of all of them.
    workloads: Vec<Named<'a>>,
}

/// A preset.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row<'a> {
    /// Its name.
    name: &'a str,
    /// The DMA path of its adapters.
    dma_path: DmaPath,
    /// What it is, in words.
    what: &'a str,
    /// The release of its kernel, null if none was fetched.
    kernel: Option<&'a str>,
    /// How many workloads run on it.
    workloads: usize,
}

/// A workload.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Named<'a> {
    /// Its name.
    name: &'a str,
    /// What it does, in words.
    what: &'a str,
}

/// Prints presets and workloads.
pub(super) fn run(args: &LabList) -> anyhow::Result<Outcome> {
    let presets = super::read_presets(args.presets.as_deref())?;
    let workloads = Workload::all();
    let rows = presets.iter().map(lab_preset).collect::<anyhow::Result<Vec<_>>>()?;
    let named: Vec<(&str, &str)> =
        workloads.iter().map(|workload| (workload.name.as_str(), workload.what.as_str())).collect();
    if args.json {
        let workloads = named.iter().map(|(name, what)| Named { name, what }).collect();
        let presets = rows.iter().map(json_row).collect();
        output::print_json(&Document { schema: SCHEMA, made_by: program_version(), presets, workloads })?;
    } else {
        output::print_page(&report::lab_list(&rows, &named))?;
    }
    Ok(Outcome::Fine)
}

/// A preset with the kernel in the cache and its number of workloads.
fn lab_preset(preset: &Preset) -> anyhow::Result<LabPreset<'_>> {
    let kernel = Kernel::newest(&Cache::from_environment()?, super::kernel_choice(preset)?).ok();
    Ok(LabPreset {
        name: &preset.name,
        dma_path: preset.dma_path,
        what: &preset.what,
        kernel: kernel.map(|kernel| kernel.release),
        workloads: Workload::select(preset, &[])?.len(),
    })
}

/// The row of a preset in the JSON document.
fn json_row<'a>(row: &'a LabPreset<'a>) -> Row<'a> {
    let LabPreset { name, dma_path, what, kernel, workloads } = row;
    Row { name, dma_path: *dma_path, what, kernel: kernel.as_deref(), workloads: *workloads }
}
