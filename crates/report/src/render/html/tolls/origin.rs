//! The evidence of the page: each sheet, how it was measured, and its workloads.

use crate::render::html::facts::definitions;
use crate::sheets::words as toll_words;
use escape::terminal::plain;
use maud::{Markup, html};
use toll::TollSheet;

/// All sheets, each folded.
pub(super) fn footer(sheets: &[TollSheet], made_by: &str) -> Markup {
    html! {
        footer #origin {
            h2 { "Evidence" }
            p {
                "Made by " (made_by) ". Counts are instructions and events, not time: caches, waiting for a real IOMMU and \
                 uncached reads have no price here. How each was obtained stands with its sheet."
            }
            @for (number, sheet) in (1..).zip(sheets) {
                details #(format!("sheet-{number}")) {
                    summary { b { (plain(&sheet.preset)) } (sheet.dma_path) ", Linux " (plain(&sheet.kernel.release)) }
                    div.evidence-of-sheet { (evidence(sheet)) }
                }
            }
        }
    }
}

/// The machine, QEMU's command line and the workloads of a sheet.
fn evidence(sheet: &TollSheet) -> Markup {
    html! {
        (definitions(&toll_words::facts(sheet)))
        h4 { "QEMU's command line" }
        p.command { code { (plain(&sheet.machine.command_line.join(" "))) } }
        h4 { "Workloads" }
        dl {
            @for toll in &sheet.tolls {
                div { dt { (plain(&toll.workload)) } dd { (plain(&toll_words::workload(toll))) } }
            }
        }
    }
}
