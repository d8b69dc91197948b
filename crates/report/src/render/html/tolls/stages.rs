//! Stages of an I/O: their order along a bar, and their colours.

use maud::{Markup, html};
use toll::{Stage, Toll, TollSheet};

/// Whether a stage maps or translates, which is where DMA paths differ.
fn maps_or_translates(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::DmaMap
            | Stage::Iova
            | Stage::TableWrite
            | Stage::Invalidation
            | Stage::DmaUnmap
            | Stage::Bounce
    )
}

/// All stages in their order along a bar. Those that map or translate come last, so they begin at about the same place on all
/// DMA paths.
pub(super) fn in_bar_order() -> impl Iterator<Item = Stage> {
    let part = |of_the_dma_path| {
        Stage::ALL.into_iter().filter(move |stage| maps_or_translates(*stage) == of_the_dma_path)
    };
    part(false).chain(part(true))
}

/// Instructions of a stage, per I/O.
pub(super) fn instructions_per_io(toll: &Toll, stage: Stage) -> f64 {
    toll.per_io(toll.stages.get(&stage).copied().unwrap_or(0))
}

/// The class of a stage's colours in the style sheet.
pub(super) fn class(stage: Stage) -> String {
    format!("stage-{stage}")
}

/// The stages in which any workload executes instructions, with their colours.
pub(super) fn legend(sheets: &[TollSheet]) -> Markup {
    let tolls = || sheets.iter().flat_map(|sheet| &sheet.tolls);
    let passed = |stage: &Stage| tolls().any(|toll| instructions_per_io(toll, *stage) > 0.0);
    html! {
        ul.stages aria-label="Colours of the stages" {
            @for stage in in_bar_order().filter(passed) {
                li {
                    svg width="14" height="14" aria-hidden="true" {
                        rect.(class(stage)) width="14" height="14" rx="2" {}
                    }
                    (stage)
                }
            }
        }
    }
}
