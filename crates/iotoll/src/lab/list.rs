//! `iotoll lab list`: presets, workloads, kernels.

use crate::cli::LabList;
use crate::output::{self, Outcome};
use lab::kernel::{Cache, Kernel};
use lab::preset::Preset;
use lab::workload::Workload;
use report::LabPreset;
use serde::Serialize;
use toll::DmaPath;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    presets: Vec<Row<'a>>,
    workloads: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    dma_path: DmaPath,
    what: &'a str,
    /// The release of its kernel, null if none was fetched.
    kernel: Option<&'a str>,
    workloads: usize,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    what: &'a str,
}

pub(super) fn run(args: &LabList) -> anyhow::Result<Outcome> {
    let presets = super::presets(args.presets.as_deref())?;
    let workloads = Workload::all();
    let rows = presets.iter().map(row).collect::<anyhow::Result<Vec<_>>>()?;
    let named: Vec<(&str, &str)> =
        workloads.iter().map(|workload| (workload.name.as_str(), workload.what.as_str())).collect();
    if args.json {
        let workloads = named.iter().map(|(name, what)| Named { name, what }).collect();
        let presets = rows.iter().map(json_row).collect();
        output::json(&Document { schema: "iotoll.lab-list/2", presets, workloads })?;
    } else {
        output::report(report::lab_list(&rows, &named, output::width(), output::style()))?;
    }
    Ok(Outcome::Fine)
}

fn row(preset: &Preset) -> anyhow::Result<LabPreset<'_>> {
    let kernel = Kernel::newest(&Cache::of_environment()?, super::choice(preset)?).ok();
    Ok(LabPreset {
        name: &preset.name,
        dma_path: preset.dma_path,
        what: &preset.what,
        kernel: kernel.map(|kernel| kernel.release),
        workloads: Workload::of(preset, &[])?.len(),
    })
}

fn json_row<'a>(row: &'a LabPreset<'a>) -> Row<'a> {
    let LabPreset { name, dma_path, what, kernel, workloads } = row;
    Row { name, dma_path: *dma_path, what, kernel: kernel.as_deref(), workloads: *workloads }
}
