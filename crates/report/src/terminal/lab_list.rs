//! What the lab can boot and run.

use super::page::Page;
use crate::cost::Cost;
use crate::style::{Ink, Style};
use escape::terminal::plain;
use toll::DmaPath;

/// A preset, for a list of them.
#[derive(Debug, Clone)]
pub struct LabPreset<'a> {
    /// Its name.
    pub name: &'a str,
    /// The DMA path its adapters take.
    pub dma_path: DmaPath,
    /// What it is, in a line.
    pub what: &'a str,
    /// The release of its kernel, if that is here.
    pub kernel: Option<String>,
    /// How many workloads its adapters can run.
    pub workloads: usize,
}

/// Presets with their DMA paths and kernels, then workloads, each a name and a line.
pub fn lab_list(presets: &[LabPreset<'_>], workloads: &[(&str, &str)], width: usize, style: Style) -> String {
    let mut page = Page::new(width, style);
    page.title("Presets");
    let names = presets.iter().map(|preset| preset.name);
    let name_width =
        names.chain(workloads.iter().map(|(name, _)| *name)).map(str::len).max().unwrap_or(0) + 2;
    for preset in presets {
        let kernel = match &preset.kernel {
            Some(release) => format!("Linux {release}"),
            None => "kernel not fetched".to_owned(),
        };
        let name = format!("{:name_width$}", plain(preset.name));
        let painted = page.style.paint(Ink::DmaPath(Cost::of(preset.dma_path)), &name);
        let text = format!("{}: {} ({kernel}, {} workloads)", preset.dma_path, preset.what, preset.workloads);
        page.led(&painted, name_width, &plain(&text), 2);
    }
    page.heading("Workloads");
    for (name, what) in workloads {
        page.led(&format!("{:name_width$}", plain(name)), name_width, &plain(what), 2);
    }
    page.done()
}
