//! The list of presets and workloads that the lab can run.

use crate::page::cost::Cost;
use crate::page::ink::Ink;
use crate::page::{Lead, Page};
use escape::terminal::plain;
use toll::DmaPath;

/// A preset of the lab, for the list of presets.
#[derive(Debug, Clone)]
pub struct LabPreset<'a> {
    /// Its name.
    pub name: &'a str,
    /// The DMA path of its adapters.
    pub dma_path: DmaPath,
    /// A description of one line.
    pub what: &'a str,
    /// The release of its kernel; `None` if the kernel was not fetched.
    pub kernel: Option<String>,
    /// The number of workloads that it can run.
    pub workloads: usize,
}

/// Presets with their DMA paths and kernels, then workloads with a description of one line.
pub fn lab_list(presets: &[LabPreset<'_>], workloads: &[(&str, &str)]) -> Page {
    let mut page = Page::titled("Presets");
    let names = presets.iter().map(|preset| preset.name);
    let name_width =
        names.chain(workloads.iter().map(|(name, _)| *name)).map(str::len).max().unwrap_or(0) + 2;
    let padded = |name: &str| format!("{:name_width$}", plain(name));
    for preset in presets {
        let kernel = match &preset.kernel {
            Some(release) => format!("Linux {release}"),
            None => "kernel not fetched".to_owned(),
        };
        let ink = Ink::DmaPath(Cost::of(preset.dma_path));
        let text = format!("{}: {} ({kernel}, {} workloads)", preset.dma_path, preset.what, preset.workloads);
        page.item(Lead::Painted(ink, padded(preset.name)), text);
    }
    page.heading("Workloads");
    for (name, what) in workloads {
        page.item(Lead::Mark(padded(name)), *what);
    }
    page
}
