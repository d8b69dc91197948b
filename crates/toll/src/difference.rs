//! The difference between two tolls.

use crate::{Average, Count, Event, Stage, Toll, TollSheet, rows};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How much more an I/O costs on one DMA path than on another; negative if it costs less. All amounts are per I/O. Stages, functions and
/// events without a difference are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Instructions, by the medians.
    pub instructions: f64,
    /// Instructions of the median windows by stage.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::StageRow<f64>>"))]
    pub stages: BTreeMap<Stage, f64>,
    /// Instructions of the median windows by function.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::FunctionRow<f64>>"))]
    pub functions: BTreeMap<String, f64>,
    /// Events of the kinds that were counted for both.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::EventDifferenceRow>"))]
    pub events: BTreeMap<Event, EventDifference>,
}

/// A difference in events of one kind, per I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EventDifference {
    /// Difference of the medians.
    pub median: f64,
    /// Difference of the means.
    pub mean: f64,
}

/// The cost that a DMA path adds to an I/O, compared with the untranslated DMA path of the same machine.
pub fn toll_over(toll: &Toll, untranslated: &Toll) -> Difference {
    let mut difference = Difference::default();
    for (count, without, with) in differing_counts(untranslated, toll) {
        let more = with - without;
        match count {
            Count::Instructions => difference.instructions = more,
            Count::Stage { stage } => _ = difference.stages.insert(stage, more),
            Count::Function { function } => _ = difference.functions.insert(function, more),
            Count::Event { event, average: Average::Median } => {
                difference.events.entry(event).or_default().median = more;
            }
            Count::Event { event, average: Average::Mean } => {
                difference.events.entry(event).or_default().mean = more;
            }
            Count::NamedEvent { .. } => {}
        }
    }
    difference
}

/// The sheet to compare a sheet with: the one among `among` with the same architecture, CPU and kernel whose DMA path is untranslated; of
/// several the one with the cheapest DMA path. May be the sheet itself.
pub fn untranslated<'s>(sheet: &TollSheet, among: &'s [TollSheet]) -> Option<&'s TollSheet> {
    let platform = |sheet: &TollSheet| {
        (sheet.machine.arch.clone(), sheet.machine.cpu.clone(), sheet.kernel.release.clone())
    };
    let wanted = platform(sheet);
    let rank =
        |sheet: &TollSheet| crate::DmaPath::ALL.iter().position(|dma_path| *dma_path == sheet.dma_path);
    among
        .iter()
        .filter(|other| other.dma_path.is_untranslated() && platform(other) == wanted)
        .min_by_key(|s| rank(s))
}

/// Counts that differ between two tolls, with both values per I/O. Events that were counted in only one of them are left out.
pub(crate) fn differing_counts(a: &Toll, b: &Toll) -> Vec<(Count, f64, f64)> {
    let (of_a, of_b) = (a.counts(), b.counts());
    let counts: BTreeSet<&Count> = of_a.keys().chain(of_b.keys()).collect();
    let counted = |count: &Count| {
        count.event().is_none_or(|event| a.events.contains_key(&event) && b.events.contains_key(&event))
    };
    let value = |of: &BTreeMap<Count, f64>, count: &Count| of.get(count).copied().unwrap_or(0.0);
    let both = |count: &Count| (count.clone(), value(&of_a, count), value(&of_b, count));
    let kept = counts.into_iter().filter(|count| counted(count)).map(both);
    kept.filter(|(_, a, b)| a != b).collect()
}
