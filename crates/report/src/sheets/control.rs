//! The control: two untranslated DMA paths of one machine and kernel, between which nothing should differ.

use super::platform::SheetLine;
use crate::page::quantity;
use escape::terminal::plain;
use toll::Estimate;

/// The largest differences between untranslated DMA paths, as shares of an I/O's instructions. They show what chance is worth.
pub(crate) struct Control<'l, 's> {
    /// In the stages of DMA mapping.
    dma: Share<'l, 's>,
    /// In the whole I/O.
    whole: Share<'l, 's>,
}

/// A difference as a share of an I/O's instructions, and where it is.
#[derive(Clone, Copy)]
struct Share<'l, 's> {
    mean: f64,
    /// Half of its interval; `None` with a single boot.
    half_width: Option<f64>,
    line: &'l SheetLine<'s>,
}

impl<'l, 's> Share<'l, 's> {
    fn of(line: &'l SheetLine<'s>, more: &Estimate) -> Option<Self> {
        let half_width = more.half_width().and_then(|half| line.share_of_base(half));
        Some(Self { mean: line.share_of_base(more.mean)?, half_width, line })
    }

    fn larger(self, other: Self) -> Self {
        if other.mean.abs() > self.mean.abs() { other } else { self }
    }

    /// `+0.1 % ±0.2 % (nvme-read-4k of x86-vtd-identity)`.
    fn words(&self) -> String {
        let half = self
            .half_width
            .filter(|half| *half > 0.0)
            .map(|half| format!(" ±{}", quantity::signed_percent(half).trim_start_matches('+')));
        let (workload, preset) = (plain(&self.line.toll.workload), plain(&self.line.sheet.preset));
        format!(
            "{}{} ({workload} of {preset})",
            quantity::signed_percent(self.mean),
            half.unwrap_or_default()
        )
    }
}

impl<'l, 's> Control<'l, 's> {
    /// The control among these lines; `None` if no two untranslated DMA paths are compared.
    pub(crate) fn of(lines: impl Iterator<Item = &'l SheetLine<'s>>) -> Option<Self> {
        let shares = |line: &'l SheetLine<'s>| {
            let over = line.over.as_ref().filter(|_| line.sheet.dma_path.is_untranslated())?;
            Some(Self { dma: Share::of(line, &over.dma)?, whole: Share::of(line, &line.more_of_all()?)? })
        };
        lines.filter_map(shares).reduce(|one, other| Self {
            dma: one.dma.larger(other.dma),
            whole: one.whole.larger(other.whole),
        })
    }

    /// Both differences in words.
    pub(crate) fn words(&self) -> String {
        format!(
            "two untranslated DMA paths differ by {} at most in the DMA stages, and by {} in the whole I/O",
            self.dma.words(),
            self.whole.words()
        )
    }
}
