//! The difference between two tolls.

use crate::{Average, Count, Estimate, Event, Stage, Toll, TollSheet, rows};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// How much more an I/O costs on one DMA path than on another; negative if it costs less. All amounts are per I/O. Stages, functions and
/// events without a difference are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Instructions, by the medians of the boots.
    pub instructions: Estimate,
    /// Instructions of the stages of DMA mapping, by the mean, which includes rare work such as the invalidation of a whole batch.
    pub dma: Estimate,
    /// Instructions of all other stages, by the mean: what the DMA path changes elsewhere, and chance.
    pub elsewhere: Estimate,
    /// Instructions by stage, by the mean.
    #[serde(with = "rows")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<rows::StageRow<Estimate>>"))]
    pub stages: BTreeMap<Stage, Estimate>,
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
    /// Difference of the boots' means.
    pub mean: Estimate,
}

impl Difference {
    /// Whether all boots of both agree that the I/Os cost the same: instructions and events.
    pub fn is_nothing(&self) -> bool {
        let is_zero = |more: &Estimate| more.sign() == Some(Ordering::Equal);
        is_zero(&self.dma) && is_zero(&self.elsewhere) && self.events.values().all(|more| is_zero(&more.mean))
    }
}

/// The cost that a DMA path adds to an I/O, compared with the untranslated DMA path of the same machine.
pub fn toll_over(toll: &Toll, untranslated: &Toll) -> Difference {
    let more = |count: fn(&Toll) -> Vec<f64>| {
        Estimate::difference(&count(toll), &count(untranslated)).unwrap_or_default()
    };
    let mut difference = Difference {
        instructions: more(Toll::medians_by_boot),
        dma: more(|toll| toll.means_by_boot(Stage::is_dma)),
        elsewhere: more(|toll| toll.means_by_boot(|stage| !stage.is_dma())),
        stages: stage_differences(toll, untranslated),
        ..Difference::default()
    };
    for (count, without, with) in differing_counts(untranslated, toll) {
        let more = with - without;
        match count {
            Count::Function { function } => _ = difference.functions.insert(function, more),
            Count::Event { event, average: Average::Median } => {
                difference.events.entry(event).or_default().median = more;
            }
            Count::Event { event, average: Average::Mean } => {
                let mean =
                    Estimate::difference(&toll.events_by_boot(event), &untranslated.events_by_boot(event));
                difference.events.entry(event).or_default().mean = mean.unwrap_or_default();
            }
            Count::Instructions | Count::Stage { .. } | Count::NamedEvent { .. } => {}
        }
    }
    difference
}

/// How much longer the stages are, except those of the same length in all boots of both.
fn stage_differences(toll: &Toll, untranslated: &Toll) -> BTreeMap<Stage, Estimate> {
    let more = |stage: Stage| {
        let in_boots = |toll: &Toll| toll.means_by_boot(|other| other == stage);
        Some((stage, Estimate::difference(&in_boots(toll), &in_boots(untranslated))?))
    };
    let differs =
        |(_, more): &(Stage, Estimate)| more.sign() != Some(Ordering::Equal) && *more != Estimate::default();
    Stage::ALL.into_iter().filter_map(more).filter(differs).collect()
}

/// The sheet to compare a sheet with: that of its base, or itself if it has none.
pub fn untranslated<'s>(sheet: &'s TollSheet, among: &'s [TollSheet]) -> Option<&'s TollSheet> {
    match &sheet.base {
        None => Some(sheet).filter(|sheet| sheet.dma_path.is_untranslated()),
        Some(base) => among.iter().find(|other| {
            other.preset == *base && other.dma_path.is_untranslated() && is_same_machine(sheet, other)
        }),
    }
}

/// Whether two sheets have the same machine and kernel, apart from the DMA path.
fn is_same_machine(sheet: &TollSheet, other: &TollSheet) -> bool {
    let machine = |sheet: &TollSheet| {
        (sheet.machine.arch.clone(), sheet.machine.cpu.clone(), sheet.kernel.release.clone())
    };
    machine(sheet) == machine(other)
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
