//! Marks: small shapes that stand for classes of DMA paths and for severities.

use crate::page::cost::Cost;
use host::diagnose::{DmaPath, Severity};
use maud::{Markup, html};

/// A class of DMA paths as a shape around the origin; shapes differ without colours too.
pub(crate) fn mark(cost: Cost) -> Markup {
    let class = cost.class();
    match cost {
        Cost::Free => html! { circle.mark.hollow.(class) r="5.5" {} },
        Cost::Batched => html! {
            circle.mark.hollow.(class) r="5.5" {}
            path.mark.(class) d="M0 -5.5A5.5 5.5 0 0 1 0 5.5Z" {}
        },
        Cost::PerMapping => html! { circle.mark.(class) r="6" {} },
        Cost::Copied => html! {
            rect.mark.hollow.(class) x="-2" y="-6.5" width="8.5" height="8.5" {}
            rect.mark.(class) x="-6.5" y="-2" width="8.5" height="8.5" {}
        },
        Cost::UserSpace => html! { path.mark.hollow.(class) d="M0 -6.5L6.5 0L0 6.5L-6.5 0Z" {} },
        Cost::Unknown | Cost::Idle => html! {
            circle.mark.hollow.dashed.(class) r="6" {}
            text.question.(class) y="3.6" text-anchor="middle" { "?" }
        },
    }
}

/// A severity as a shape around the origin.
pub(crate) fn severity_mark(severity: Severity) -> Markup {
    match severity {
        Severity::Critical => html! { path.severity.critical d="M-3 -7H3L7 -3V3L3 7H-3L-7 3V-3Z" {} },
        Severity::Warning => html! { path.severity.warning d="M0 -7L7.5 6H-7.5Z" {} },
        Severity::Note => html! { circle.severity.note r="6" {} },
    }
}

/// A DMA path's line pattern and mark, for the legend.
pub(crate) fn swatch(dma_path: DmaPath) -> Markup {
    let cost = Cost::of(dma_path);
    let name = format!("mark of {}", dma_path.word());
    html! {
        svg.swatch viewBox="0 0 52 18" width="52" height="18" role="img" aria-label=(name) {
            title { (name) }
            path.edge.(cost.class()) d="M0 9H34" {}
            g transform="translate(43 9)" { (mark(cost)) }
        }
    }
}
