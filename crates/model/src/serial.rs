//! Something that does one thing after another.

use des::{Calendar, Queue, Span, Time};
use std::collections::VecDeque;

/// A link's direction, an engine, a pipeline's entrance: what comes while it is busy waits, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Serial {
    free_at: Time,
    taken: Span,
    /// When it will be idle, before the last of what it is taken for.
    gaps: VecDeque<[Time; 2]>,
}

impl Serial {
    /// Takes it for a while, and says when that is over.
    pub(crate) fn take(&mut self, now: Time, span: Span) -> Time {
        self.free_at = self.free_at.max(now) + span;
        self.taken += span;
        self.free_at
    }

    /// The same from a later time on, which is not before that of whoever has taken it last.
    pub(crate) fn take_at(&mut self, now: Time, at: Time, span: Span) -> Time {
        while self.gaps.pop_front_if(|gap| gap[1] <= now).is_some() {}
        if at > self.free_at && at > now {
            self.gaps.push_back([self.free_at.max(now), at]);
        }
        self.take(at, span)
    }

    /// Whatever it was taken for and has not done, it never does: it is free.
    pub(crate) fn stop(&mut self, now: Time) {
        self.taken = self.busy(now);
        self.free_at = self.free_at.min(now);
        self.gaps.clear();
    }

    /// How long it was busy up to now: without what waits.
    pub(crate) fn busy(&self, now: Time) -> Span {
        let from_now = |[begin, end]: &[Time; 2]| end.since((*begin).max(now)).unwrap_or_default();
        let idle = self.gaps.iter().map(from_now).fold(Span::ZERO, |sum, gap| sum + gap);
        let waiting = self.free_at.since(now).unwrap_or(Span::ZERO);
        Span::from_ps((self.taken.as_ps() + idle.as_ps()).saturating_sub(waiting.as_ps()))
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

    #[test]
    fn what_was_not_done_is_not_busy() {
        let mut serial = Serial::default();
        let at = Time::from_ps;
        serial.take(at(10), Span::from_ps(100));
        serial.stop(at(30));
        assert_eq!(serial.busy(at(50)).as_ps(), 20);
        assert_eq!(serial.take(at(50), Span::from_ps(5)), at(55));
        assert_eq!(serial.busy(at(60)).as_ps(), 25);
    }

    #[test]
    fn what_is_taken_later_leaves_it_idle_until_then() {
        let mut serial = Serial::default();
        let at = Time::from_ps;
        let mut take = |now, from| serial.take_at(at(now), at(from), Span::from_ps(10)).since(Time::ZERO);
        let ends = [take(0, 100), take(0, 105), take(5, 300), take(120, 130)];
        assert_eq!(ends.map(|end| end.unwrap().as_ps()), [110, 120, 310, 320]);
        let busy = [0, 99, 105, 120, 200, 300, 315, 400].map(|now| serial.busy(at(now)).as_ps());
        assert_eq!(busy, [0, 0, 5, 20, 20, 20, 35, 40]);
    }
}
