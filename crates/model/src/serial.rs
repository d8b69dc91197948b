//! Something that does one thing after another.

use des::{Span, Time};

/// A link's direction, an engine, a pipeline's entrance: what comes while it is busy waits, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Serial {
    free_at: Time,
    busy: Span,
}

impl Serial {
    /// Takes it for a while, and says when that is over.
    pub(crate) fn take(&mut self, now: Time, span: Span) -> Time {
        self.free_at = self.free_at.max(now) + span;
        self.busy += span;
        self.free_at
    }

    /// How long it was taken.
    pub(crate) fn busy(&self) -> Span {
        self.busy
    }

    /// Counts anew.
    pub(crate) fn forget(&mut self) {
        self.busy = Span::ZERO;
    }
}
