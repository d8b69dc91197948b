//! The table of adapters, and each adapter in full.

use super::facts::{more, sections};
use crate::inspection::adapter;
use crate::inspection::batch::{self, Batch};
use crate::inspection::footnotes;
use crate::inspection::row::Row;
use crate::page::cost::Cost;
use crate::page::quantity;
use crate::render::svg;
use host::diagnose::Inspection;
use maud::{Markup, html};

/// Rows of one table.
const ROWS_MAX: usize = 12_000;

/// The section of adapters; alike ones are batched where there are many.
pub(super) fn section(inspection: &Inspection, rows: &[Row]) -> Markup {
    let batches = batch::batches(rows);
    let is_batched = batches.len() < rows.len();
    html! {
        section #adapters aria-labelledby="adapters-title" {
            h2 #adapters-title { "Adapters" }
            @if is_batched {
                (table("Adapters alike, worst DMA path first", &batches[..batches.len().min(ROWS_MAX)]))
                (more(batches.len(), ROWS_MAX, "more kind of adapter"))
                (footnotes(rows))
                details {
                    summary { "All " (quantity::count(rows.len(), "adapter")) " one by one" }
                    (table("Adapters one by one, worst DMA path first", &batch::singles(&rows[..rows.len().min(ROWS_MAX)])))
                    (more(rows.len(), ROWS_MAX, "more adapter"))
                }
            } @else {
                @if !rows.is_empty() { (table("Adapters, worst DMA path first", &batches)) }
                (footnotes(rows))
                @if !rows.is_empty() { h3 { "Each in full" } }
                @for row in rows { (in_full(inspection, row)) }
            }
        }
    }
}

/// Conditions and reasons, one line each.
fn footnotes(rows: &[Row]) -> Markup {
    html! { @for note in footnotes::footnotes(rows) { p.remark { (note) } } }
}

/// An adapter with all its facts, folded.
fn in_full(inspection: &Inspection, row: &Row) -> Markup {
    html! {
        details {
            summary { code { (row.address) } " " b { (row.display_name()) } " " (row.driver) }
            @if let Some(facts) = adapter::sections(inspection, row.address) { (sections(&facts)) }
        }
    }
}

/// A table of adapters, one row for each batch.
fn table(caption: &str, batches: &[Batch]) -> Markup {
    html! {
        div.scroll {
            table.adapters {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "address" }
                        th scope="col" { "name" }
                        th scope="col" { "driver" }
                        th scope="col" { "DMA path" }
                        th.number scope="col" { abbr title="highest address bit of streaming DMA" { "mask" } }
                        th.number scope="col" { abbr title="IOMMU group" { "group" } }
                        th.number scope="col" { abbr title="NUMA node" { "node" } }
                        th scope="col" { "link" }
                        th.number scope="col" { "findings" }
                    }
                }
                tbody { @for batch in batches { (table_row(batch)) } }
            }
        }
    }
}

/// The row of a batch.
fn table_row(batch: &Batch) -> Markup {
    let row = &batch.row;
    let cost = Cost::of(row.dma_path);
    html! {
        tr {
            th scope="row" { code { (batch.addresses) } }
            td { (batch.called) }
            td { (dash(&row.driver)) }
            td.path-word {
                svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
                span.dma_path.(cost.class()) { (row.path_word()) }
            }
            td.number { (dash(&row.mask)) }
            td.number { (dash(&row.group)) }
            td.number { (dash(&row.numa)) }
            td { (dash(&row.link)) }
            td.number {
                @match row.findings.worst {
                    Some(worst) => {
                        svg.tiny viewBox="-8 -8 16 16" width="12" height="12" role="img" aria-label=(worst) {
                            title { (worst) }
                            (svg::severity_mark(worst))
                        }
                        (quantity::grouped(row.findings.count as u64))
                    }
                    None => span.absent { "–" },
                }
            }
        }
    }
}

/// A dash for an empty text.
fn dash(text: &str) -> &str {
    if text.is_empty() { "–" } else { text }
}
