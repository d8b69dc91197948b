//! Something that does one thing after another.

use des::{Calendar, Queue, Span, Time};

/// A link's direction, an engine, a pipeline's entrance: what comes while it is busy waits, in order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Serial {
    free_at: Time,
    taken: Span,
}

impl Serial {
    /// Takes it for a while, and says when that is over.
    pub(crate) fn take(&mut self, now: Time, span: Span) -> Time {
        self.free_at = self.free_at.max(now) + span;
        self.taken += span;
        self.free_at
    }

    /// How long it was busy up to now: without what waits.
    pub(crate) fn busy(&self, now: Time) -> Span {
        let waiting = self.free_at.since(now).unwrap_or(Span::ZERO);
        Span::from_ps(self.taken.as_ps().saturating_sub(waiting.as_ps()))
    }
}

/// Schedules what is never in the past: its time is that of an event plus a span.
pub(crate) fn put<E: Copy>(calendar: &mut Calendar<E, impl Queue<E>>, at: Time, event: E) {
    let delay = at.since(calendar.now()).unwrap_or_default();
    calendar.schedule_in(delay, event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_not_yet_busy() {
        let mut serial = Serial::default();
        let at = Time::from_ps;
        assert_eq!(serial.take(at(10), Span::from_ps(5)), at(15));
        assert_eq!(serial.take(at(11), Span::from_ps(20)), at(35));
        assert_eq!([10, 12, 20, 35, 99].map(|now| serial.busy(at(now)).as_ps()), [0, 2, 10, 25, 25]);
        assert_eq!(serial.take(at(100), Span::from_ps(1)), at(101));
        assert_eq!(serial.busy(at(101)).as_ps(), 26);
    }
}
