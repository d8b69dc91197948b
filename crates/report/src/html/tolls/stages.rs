//! Stages in their order along a bar, and their colours.

use maud::{Markup, html};
use toll::{Stage, Toll, TollSheet};

/// Whether a stage is there for mapping and translation: what DMA paths differ in.
fn is_of_the_dma_path(stage: Stage) -> bool {
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

/// All stages as they follow each other along a bar: those of the DMA path last, so that what they take begins
/// at about the same place on all DMA paths.
pub(super) fn along_the_bar() -> impl Iterator<Item = Stage> {
    let part = |of_the_dma_path| {
        Stage::ALL.into_iter().filter(move |stage| is_of_the_dma_path(*stage) == of_the_dma_path)
    };
    part(false).chain(part(true))
}

/// Instructions of a stage, per I/O.
pub(super) fn of(toll: &Toll, stage: Stage) -> f64 {
    toll.per_io(toll.stages.get(&stage).copied().unwrap_or(0))
}

/// The name of a stage's colours in the style sheet.
pub(super) fn class(stage: Stage) -> String {
    format!("stage-{stage}")
}

/// The stages that the sheets have, with their colours.
pub(super) fn legend(sheets: &[TollSheet]) -> Markup {
    let tolls = || sheets.iter().flat_map(|sheet| &sheet.tolls);
    let passed = |stage: &Stage| tolls().any(|toll| of(toll, *stage) > 0.0);
    html! {
        ul.stages aria-label="Colours of the stages" {
            @for stage in along_the_bar().filter(passed) {
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
