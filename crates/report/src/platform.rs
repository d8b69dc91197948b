//! Toll sheets side by side: what one workload pays on each DMA path of a machine and kernel.

use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::{Difference, DmaPath, Event, Toll, TollSheet, toll_over, untranslated};

/// Said where there is no sheet to measure a DMA path against.
pub(crate) const NO_UNTRANSLATED: &str = "No sheet of an untranslated DMA path (no-iommu, identity, direct-window) of \
    this machine and kernel has this workload: what translation costs can't be told.";

/// A machine and kernel, with the sheets that have a workload.
pub(crate) struct Platform<'s> {
    /// Architecture, CPU and release, in words.
    pub(crate) name: String,
    /// The sheets, cheapest DMA path first.
    pub(crate) lines: Vec<Line<'s>>,
}

/// A sheet's toll, with the untranslated one to measure it against.
pub(crate) struct Line<'s> {
    /// The sheet.
    pub(crate) sheet: &'s TollSheet,
    /// Its place among the sheets.
    pub(crate) place: usize,
    /// What it says of the workload.
    pub(crate) toll: &'s Toll,
    /// The untranslated sheet, which it may be itself, and what that says.
    pub(crate) base: Option<(&'s TollSheet, &'s Toll)>,
    /// What it has over the base; nothing for the base itself.
    pub(crate) over: Option<Difference>,
}

/// Machines and kernels of which a sheet has the workload.
pub(crate) fn platforms<'s>(sheets: &'s [TollSheet], workload: &str) -> Vec<Platform<'s>> {
    let mut platforms: BTreeMap<(&str, &str, &str), Vec<Line>> = BTreeMap::new();
    for (place, sheet) in sheets.iter().enumerate() {
        let Some(toll) = sheet.toll(workload) else { continue };
        let platform =
            (sheet.machine.arch.as_str(), sheet.kernel.release.as_str(), sheet.machine.cpu.as_str());
        platforms.entry(platform).or_default().push(Line::new(sheets, place, toll));
    }
    let platform = |((arch, release, cpu), mut lines): ((&str, &str, &str), Vec<Line<'s>>)| {
        let rank = |dma_path: DmaPath| DmaPath::ALL.iter().position(|known| *known == dma_path);
        lines.sort_by_key(|line| (rank(line.sheet.dma_path), &line.sheet.preset));
        Platform { name: plain(&format!("{arch} {cpu}, Linux {release}")), lines }
    };
    platforms.into_iter().map(platform).collect()
}

impl<'s> Line<'s> {
    fn new(sheets: &'s [TollSheet], place: usize, toll: &'s Toll) -> Self {
        let sheet = &sheets[place];
        let base = untranslated(sheet, sheets).and_then(|base| Some((base, base.toll(&toll.workload)?)));
        let other = base.filter(|(base, _)| *base != sheet);
        Self { sheet, place, toll, base, over: other.map(|(_, untranslated)| toll_over(toll, untranslated)) }
    }

    /// Instructions of one I/O, by the median.
    pub(crate) fn instructions(&self) -> f64 {
        self.toll.per_io(self.toll.instructions.median)
    }

    /// Events over the base; `None` if they were not counted in both.
    pub(crate) fn more(&self, event: Event) -> Option<f64> {
        let counted = |toll: &Toll| toll.events.contains_key(&event);
        let both = counted(self.toll) && self.base.is_some_and(|(_, base)| counted(base));
        both.then(|| self.over.as_ref()?.events.get(&event).map(|more| more.median))
            .map(|more| more.unwrap_or(0.0))
    }

    /// What the DMA path adds to the instructions of one I/O, as a part of what they are without it.
    pub(crate) fn added(&self) -> Option<f64> {
        let (over, base) = (self.over.as_ref()?, self.base?.1);
        let without = base.per_io(base.instructions.median);
        (without > 0.0).then(|| over.instructions / without)
    }

    /// Whether the two differ by more than their windows vary: from the smallest to the 99th percentile they
    /// have nothing in common.
    pub(crate) fn stands_apart(&self) -> bool {
        self.base.is_some_and(|(_, base)| least(self.toll, base) > 0.0 || least(base, self.toll) > 0.0)
    }

    /// What the DMA path adds as a part, for certain: its smallest window against the 99th percentile without it.
    pub(crate) fn surely_added(&self) -> Option<f64> {
        let (added, base) = (self.added()?, self.base?.1);
        let certain = least(self.toll, base) / base.per_io(base.instructions.median);
        (certain > 0.0).then(|| certain.min(added))
    }
}

/// How far the smallest window of one is above the 99th percentile of the other, per I/O.
fn least(one: &Toll, other: &Toll) -> f64 {
    one.per_io(one.instructions.min) - other.per_io(other.instructions.p99)
}
