//! What one toll has more than another.

use crate::{Average, Count, Event, Stage, Toll, TollSheet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What an I/O pays on one DMA path more (or, negative, less) than on another. Per I/O; what does not differ
/// is not in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Instructions, by the medians.
    pub instructions: f64,
    /// Instructions of the median windows by stage.
    pub stages: BTreeMap<Stage, f64>,
    /// Instructions of the median windows by function.
    pub functions: BTreeMap<String, f64>,
    /// Events of the kinds that were counted for both.
    pub events: BTreeMap<Event, EventDifference>,
}

/// A difference in events of one kind, per I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct EventDifference {
    /// Of the medians.
    pub median: f64,
    /// Of the means.
    pub mean: f64,
}

/// The toll proper: what an I/O pays beyond what it pays on the same machine's untranslated DMA path.
pub fn toll_over(toll: &Toll, untranslated: &Toll) -> Difference {
    let mut difference = Difference::default();
    for (count, without, with) in unequal(untranslated, toll) {
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

/// The sheet that a sheet's tolls are measured against: one of the same architecture, CPU and kernel whose
/// DMA path is untranslated, the cheapest such DMA path first. A sheet may be its own.
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

/// Counts that are not the same in two tolls, with both values. Events that were counted in one of them
/// alone can't be compared, and are left out.
pub(crate) fn unequal(a: &Toll, b: &Toll) -> Vec<(Count, f64, f64)> {
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
