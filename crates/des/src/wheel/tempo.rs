//! Measures the rate at which entries are removed, and decides when the shape of the pages is reviewed.

use crate::{Entry, Span, Time};

/// Least number of entries between two reviews. It is at least the number of pending ones, so that reviews cost
/// little.
const BEATS_MIN: usize = 256;

/// Up to this many entries need no pages: they stay sorted on one line.
const UNPAGED_MAX: usize = 16;

/// Measures the rate since the last review.
#[derive(Debug, Clone)]
pub(super) struct Tempo {
    beats: usize,
    review_at: usize,
    full_at: usize,
    begun: Time,
    last: Time,
}

impl Tempo {
    /// Counts a removed entry. Returns whether a review is due.
    #[inline]
    pub(super) fn beat(&mut self, time: Time) -> bool {
        self.last = time;
        self.beats += 1;
        self.beats >= self.review_at
    }

    /// Time of the last removed entry.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// Number of entries above which the pages are reshaped.
    pub(super) fn full_at(&self) -> usize {
        self.full_at
    }

    /// Starts a new measurement.
    pub(super) fn begin(&mut self, pending: usize) {
        self.beats = 0;
        self.begun = self.last;
        self.review_at = BEATS_MIN.max(2 * pending);
        self.full_at = UNPAGED_MAX.max(4 * pending);
    }

    /// Number of entries removed since the last review, and the simulated time in picoseconds.
    pub(super) fn pace(&self) -> (usize, u64) {
        (self.beats, self.last.since(self.begun).map_or(0, Span::as_ps))
    }

    /// Number of entries and the simulated time in picoseconds that they take: measured, or estimated from the pending entries if few were
    /// removed.
    pub(super) fn pace_of<E>(&self, pending: &mut [Entry<E>]) -> (usize, u64) {
        let half = pending.len() / 2;
        if self.beats * 4 >= pending.len() || half == 0 {
            return self.pace();
        }
        let (_, median, _) = pending.select_nth_unstable(half);
        (half, median.time.since(self.last).map_or(0, Span::as_ps))
    }
}

impl Default for Tempo {
    /// Without pages no review is due.
    fn default() -> Self {
        Self { beats: 0, review_at: usize::MAX, full_at: UNPAGED_MAX, begun: Time::ZERO, last: Time::ZERO }
    }
}
