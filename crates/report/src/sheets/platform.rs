//! Toll sheets of one machine and kernel side by side: what a workload costs on each DMA path.

use crate::page::quantity;
use escape::terminal::plain;
use std::collections::BTreeMap;
use toll::{
    Difference, DmaPath, Estimate, Event, Expense, PriceList, Toll, TollSheet, toll_over, untranslated,
};

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

    /// Whether the share that it adds has a certain sign, and is not zero as it is shown, with one decimal of a percent.
    pub(crate) fn adds_visibly_for_certain(&self) -> bool {
        self.differs_for_certain() && self.added_share().is_some_and(|share| share.abs() >= 0.000_5)
    }

    /// What the DMA path adds in the stages of DMA mapping, as a share of an I/O's instructions on the untranslated DMA path.
    pub(crate) fn added_share(&self) -> Option<f64> {
        self.share_of_base(self.over.as_ref()?.dma.mean)
    }

    /// Whether the stages of DMA mapping differ for certain: their difference's interval does not contain zero.
    pub(crate) fn differs_for_certain(&self) -> bool {
        self.over.as_ref().is_some_and(|over| over.dma.sign().is_some())
    }

    /// The share that the DMA path adds for certain, by the lower end of the interval. `None` if that is not more than zero.
    pub(crate) fn certainly_added_share(&self) -> Option<f64> {
        self.share_of_base(self.over.as_ref()?.dma.low?).filter(|share| *share > 0.0)
    }

    /// What the DMA path adds to the base in CPU time, in words. `None` without a base or a list of prices.
    pub(crate) fn added_time(&self, prices: Option<&PriceList>) -> Option<String> {
        Some(priced(self.over.as_ref()?, prices?))
    }

    /// How many more instructions an I/O has than on the base, in all stages, by the mean.
    pub(crate) fn more_of_all(&self) -> Option<Estimate> {
        Estimate::difference(&self.toll.means_by_boot(|_| true), &self.base?.1.means_by_boot(|_| true))
    }

    /// Instructions per I/O as a share of those on the untranslated DMA path, by the mean.
    pub(crate) fn share_of_base(&self, instructions: f64) -> Option<f64> {
        let without = Estimate::of(&self.base?.1.means_by_boot(|_| true))?.mean;
        (without > 0.0).then(|| instructions / without)
    }
}

/// A difference in CPU time, in words: that of the DMA stages and of all events that have a price. Behind it half of the interval, as if
/// all parts erred to one side, if that is one percent or more; and a ? where the interval contains zero.
pub(crate) fn priced(over: &Difference, prices: &PriceList) -> String {
    let events = over.events.iter().map(|(event, more)| (*event, more.mean)).collect();
    let (Expense { ns, .. }, half_width_ns) = prices.price_difference(over.dma, &events);
    let sign = match ns {
        0.0 => "",
        ns if ns < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{}", quantity::time_or_doubt(ns.abs(), half_width_ns))
}

/// The prices of a sheet's architecture.
pub(crate) fn prices_of<'p>(sheet: &TollSheet, prices: &'p [PriceList]) -> Option<&'p PriceList> {
    prices.iter().find(|list| list.arch == sheet.machine.arch)
}
