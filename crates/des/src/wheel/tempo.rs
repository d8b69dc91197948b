//! How fast entries come out, and when to look at the pages' shape again.

use crate::{Entry, Span, Time};

/// Reviews are at least so many entries apart, and at least as many as are pending, so that they cost next to nothing.
const BEATS_MIN: usize = 256;

/// So many entries stay in the heap, which is as fast then.
const HEAPED_MAX: usize = 16;

/// The time that entries took to come out since the last review.
#[derive(Debug, Clone)]
pub(super) struct Tempo {
    beats: usize,
    review_at: usize,
    full_at: usize,
    begun: Time,
    last: Time,
}

impl Tempo {
    /// An entry came out. Whether it is time for a review.
    #[inline]
    pub(super) fn beat(&mut self, time: Time) -> bool {
        self.last = time;
        self.beats += 1;
        self.beats >= self.review_at
    }

    /// When the last entry came out.
    pub(super) fn last(&self) -> Time {
        self.last
    }

    /// More entries than this want other pages.
    pub(super) fn full_at(&self) -> usize {
        self.full_at
    }

    /// Counts anew, with so many entries pending.
    pub(super) fn begin(&mut self, pending: usize) {
        self.beats = 0;
        self.begun = self.last;
        self.review_at = BEATS_MIN.max(2 * pending);
        self.full_at = HEAPED_MAX.max(4 * pending);
    }

    /// In which time how many entries came out since the last review.
    pub(super) fn pace(&self) -> (usize, u64) {
        (self.beats, self.last.since(self.begun).map_or(0, Span::as_ps))
    }

    /// The same as these entries will, if hardly any came out yet.
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
    /// Without pages there is nothing to review.
    fn default() -> Self {
        Self { beats: 0, review_at: usize::MAX, full_at: HEAPED_MAX, begun: Time::ZERO, last: Time::ZERO }
    }
}
