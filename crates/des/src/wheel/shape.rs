//! The width of lines and the number of pages of the wheel.

/// Line width and number of pages, both powers of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Log2 of a line's width in picoseconds.
    pub(super) line_log2: u32,
    /// Number of pages: none, or at least 64.
    pub(super) pages: usize,
}

impl Shape {
    const PAGES_MIN: usize = 64;
    const PAGES_MAX: usize = 1 << 28;
    /// Intended number of entries per page.
    const PER_PAGE: u128 = 32;
    /// Multiple of the mean delay that the pages cover: all but 1 in 3,000 exponential delays.
    const MEAN_DELAYS: usize = 8;

    /// The best shape for a rate of `entries` removed in `elapsed_ps`, with `pending` entries.
    pub(super) fn fit(entries: usize, elapsed_ps: u64, pending: usize, lines_log2: u32) -> Self {
        let page_ps = u128::from(elapsed_ps) * Self::PER_PAGE / entries.max(1) as u128;
        let line_ps = (page_ps >> lines_log2).clamp(1, 1 << 54);
        // Round to the nearest power of two, by ratio.
        let line_log2 = (line_ps * line_ps * 2).ilog2() / 2;
        let pages = pending.saturating_mul(Self::MEAN_DELAYS) / Self::PER_PAGE as usize;
        Self { line_log2, pages: pages.clamp(Self::PAGES_MIN, Self::PAGES_MAX).next_power_of_two() }
    }

    /// Whether the shape differs so much from the best one that moving all entries pays off.
    pub(super) fn is_far_from(&self, fit: &Self) -> bool {
        self.pages < fit.pages || self.pages / 8 >= fit.pages || self.line_log2.abs_diff(fit.line_log2) > 1
    }
}
