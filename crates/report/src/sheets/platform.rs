//! Toll sheets of one machine and kernel side by side: what a workload costs on each DMA path.

use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::{Difference, DmaPath, Event, Toll, TollSheet, toll_over, untranslated};

/// Said where no sheet of an untranslated DMA path is there to compare with.
pub(crate) const NO_UNTRANSLATED: &str = "No sheet of an untranslated DMA path (no-iommu, identity, direct-window) of \
    this machine and kernel has this workload: what translation costs is unknown.";

/// A machine and kernel, with those of its sheets that have a workload.
pub(crate) struct Platform<'s> {
    /// Architecture, CPU and release, in words.
    pub(crate) name: String,
    /// The sheets, cheapest DMA path first.
    pub(crate) lines: Vec<SheetLine<'s>>,
}

/// What a workload costs on one sheet, beside what it costs on the untranslated DMA path.
pub(crate) struct SheetLine<'s> {
    /// The sheet.
    pub(crate) sheet: &'s TollSheet,
    /// Its index among the sheets.
    pub(crate) place: usize,
    /// What the workload costs on it.
    pub(crate) toll: &'s Toll,
    /// The sheet of the untranslated DMA path, which may be the same sheet, and what the workload costs on that.
    pub(crate) base: Option<(&'s TollSheet, &'s Toll)>,
    /// How much more it costs than on the base; `None` for the base itself.
    pub(crate) over: Option<Difference>,
}

/// The machines and kernels whose sheets have the workload.
pub(crate) fn platforms<'s>(sheets: &'s [TollSheet], workload: &str) -> Vec<Platform<'s>> {
    let mut platforms: BTreeMap<(&str, &str, &str), Vec<SheetLine>> = BTreeMap::new();
    for (place, sheet) in sheets.iter().enumerate() {
        let Some(toll) = sheet.toll(workload) else { continue };
        let platform =
            (sheet.machine.arch.as_str(), sheet.kernel.release.as_str(), sheet.machine.cpu.as_str());
        platforms.entry(platform).or_default().push(SheetLine::new(sheets, place, toll));
    }
    let platform = |((arch, release, cpu), mut lines): ((&str, &str, &str), Vec<SheetLine<'s>>)| {
        let rank = |dma_path: DmaPath| DmaPath::ALL.iter().position(|known| *known == dma_path);
        lines.sort_by_key(|line| (rank(line.sheet.dma_path), &line.sheet.preset));
        Platform { name: plain(&format!("{arch} {cpu}, Linux {release}")), lines }
    };
    platforms.into_iter().map(platform).collect()
}

impl<'s> SheetLine<'s> {
    /// The line of the sheet at index `place`, compared with the untranslated sheet of its machine and kernel.
    fn new(sheets: &'s [TollSheet], place: usize, toll: &'s Toll) -> Self {
        let sheet = &sheets[place];
        let base = untranslated(sheet, sheets).and_then(|base| Some((base, base.toll(&toll.workload)?)));
        let other = base.filter(|(base, _)| *base != sheet);
        Self { sheet, place, toll, base, over: other.map(|(_, untranslated)| toll_over(toll, untranslated)) }
    }

    /// Instructions of one I/O, of the median window.
    pub(crate) fn instructions(&self) -> f64 {
        self.toll.per_io(self.toll.instructions.median)
    }

    /// How many more events an I/O has than on the base; `None` if they were not counted in both.
    pub(crate) fn more_events(&self, event: Event) -> Option<f64> {
        let counted = |toll: &Toll| toll.events.contains_key(&event);
        let both = counted(self.toll) && self.base.is_some_and(|(_, base)| counted(base));
        both.then(|| self.over.as_ref()?.events.get(&event).map(|more| more.median))
            .map(|more| more.unwrap_or(0.0))
    }

    /// What the DMA path adds to the instructions of one I/O, as a share of those on the untranslated DMA path.
    pub(crate) fn added_share(&self) -> Option<f64> {
        let (over, base) = (self.over.as_ref()?, self.base?.1);
        let without = base.per_io(base.instructions.median);
        (without > 0.0).then(|| over.instructions / without)
    }

    /// Whether the windows of both sheets differ for certain: from the smallest to the 99th percentile, the ranges don't overlap.
    pub(crate) fn differs_for_certain(&self) -> bool {
        self.base.is_some_and(|(_, base)| margin(self.toll, base) > 0.0 || margin(base, self.toll) > 0.0)
    }

    /// The share that the DMA path adds for certain: its smallest window against the 99th percentile of the base. `None` if the
    /// ranges overlap.
    pub(crate) fn certainly_added_share(&self) -> Option<f64> {
        let (added, base) = (self.added_share()?, self.base?.1);
        let certain = margin(self.toll, base) / base.per_io(base.instructions.median);
        (certain > 0.0).then(|| certain.min(added))
    }
}

/// How far the smallest window of `one` is above the 99th percentile of `other`, in instructions per I/O.
fn margin(one: &Toll, other: &Toll) -> f64 {
    one.per_io(one.instructions.min) - other.per_io(other.instructions.p99)
}
