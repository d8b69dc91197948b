//! The control: two untranslated DMA paths of one machine and kernel, between which nothing should differ.

use super::platform::SheetLine;
use crate::page::quantity;
use escape::terminal::plain;

/// The largest differences between untranslated DMA paths, as shares of an I/O's instructions. They show what chance is worth.
pub(crate) struct Control<'l, 's> {
    /// In the stages of DMA mapping, and where.
    dma: (f64, &'l SheetLine<'s>),
    /// In the whole I/O, and where.
    whole: (f64, &'l SheetLine<'s>),
}

impl<'l, 's> Control<'l, 's> {
    /// The control among these lines; `None` if no two untranslated DMA paths are compared.
    pub(crate) fn of(lines: impl Iterator<Item = &'l SheetLine<'s>>) -> Option<Self> {
        let shares = |line: &'l SheetLine<'s>| {
            let over = line.over.as_ref().filter(|_| line.sheet.dma_path.is_untranslated())?;
            let share = |instructions| Some((line.share_of_base(instructions)?, line));
            Some(Self { dma: share(over.dma.mean)?, whole: share(over.dma.mean + over.elsewhere.mean)? })
        };
        let larger = |one: (f64, &'l SheetLine<'s>), other: (f64, &'l SheetLine<'s>)| {
            if other.0.abs() > one.0.abs() { other } else { one }
        };
        let controls = lines.filter_map(shares);
        controls.reduce(|one, other| Self {
            dma: larger(one.dma, other.dma),
            whole: larger(one.whole, other.whole),
        })
    }

    /// Both differences in words.
    pub(crate) fn words(&self) -> String {
        let words = |(share, line): (f64, &SheetLine<'_>)| {
            let (workload, preset) = (plain(&line.toll.workload), plain(&line.sheet.preset));
            format!("{} ({workload} of {preset})", quantity::signed_percent(share))
        };
        format!(
            "two untranslated DMA paths differ by {} at most in the DMA stages, and by {} in the whole I/O, which is chance",
            words(self.dma),
            words(self.whole)
        )
    }
}
