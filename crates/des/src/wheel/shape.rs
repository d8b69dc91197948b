//! How wide and how many the pages are.

/// Both are powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The width of a line in picoseconds, as a power of two.
    pub(super) line_log2: u32,
    /// None, or 64 at least.
    pub(super) pages: usize,
}

impl Shape {
    const PAGES_MIN: usize = 64;
    const PAGES_MAX: usize = 1 << 28;
    /// So many entries come out of a page.
    const PER_PAGE: u128 = 32;
    /// So many times the mean delay is within the pages: of exponential delays, all but 1 in 3,000.
    const MEAN_DELAYS: usize = 8;

    /// For entries of which so many come out in that time.
    pub(super) fn fit(entries: usize, elapsed_ps: u64, pending: usize, lines_log2: u32) -> Self {
        let page_ps = u128::from(elapsed_ps) * Self::PER_PAGE / entries.max(1) as u128;
        let line_ps = (page_ps >> lines_log2).clamp(1, 1 << 54);
        // The power of two that is nearest, by ratio.
        let line_log2 = (line_ps * line_ps * 2).ilog2() / 2;
        let pages = pending.saturating_mul(Self::MEAN_DELAYS) / Self::PER_PAGE as usize;
        Self { line_log2, pages: pages.clamp(Self::PAGES_MIN, Self::PAGES_MAX).next_power_of_two() }
    }

    /// So far that it is worth to move everything.
    pub(super) fn is_far_from(&self, fit: &Self) -> bool {
        self.pages < fit.pages || self.pages / 8 >= fit.pages || self.line_log2.abs_diff(fit.line_log2) > 1
    }
}
