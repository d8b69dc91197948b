//! What I/Os cost today and after the fixes, as a table of the host's page.

use crate::inspection::outlook;
use crate::page::cost::Cost;
use crate::render::svg;
use host::diagnose::{DmaPath, Outlook};
use maud::{Markup, html};

/// The section; nothing if no fix changes what an I/O costs.
pub(super) fn section(outlooks: &[Outlook]) -> Markup {
    let (rows, left_out) = outlook::largest_changes(outlooks);
    html! {
        @if !rows.is_empty() {
            section #outlook aria-labelledby="outlook-title" {
                h2 #outlook-title { (outlook::TITLE) }
                div.scroll {
                    table {
                        caption { "CPU time of an I/O on either DMA path, the largest change first" }
                        thead {
                            tr {
                                th scope="col" { "adapter" }
                                th scope="col" { "I/O" }
                                th scope="col" { "DMA path today" }
                                th.number scope="col" { "takes" }
                                th scope="col" { "DMA path after" }
                                th.number scope="col" { "takes" }
                                th.number scope="col" { "change" }
                                th.number scope="col" { "of a CPU" }
                            }
                        }
                        tbody {
                            @for row in &rows {
                                tr {
                                    th scope="row" { code { (row.adapters) } }
                                    td { (row.io) }
                                    (dma_path(row.dma_path_today))
                                    td.number { (row.today) }
                                    (dma_path(row.dma_path_after))
                                    td.number { (row.after) }
                                    td.number { (row.change) }
                                    td.number { (row.of_a_cpu) }
                                }
                            }
                        }
                    }
                }
                p.remark { (outlook::legend(outlooks, left_out)) }
            }
        }
    }
}

/// A cell with the mark and the word of a DMA path.
fn dma_path(dma_path: DmaPath) -> Markup {
    let cost = Cost::of(dma_path);
    html! {
        td.path-word {
            svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
            span.dma_path.(cost.class()) { (dma_path.word()) }
        }
    }
}
