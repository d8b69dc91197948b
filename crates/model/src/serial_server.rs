//! A server that processes one job at a time, first come, first served.
//!
//! It needs no events of its own: [`SerialServer::occupy`] returns when a job will be done, and the caller schedules
//! its event then.

use des::{Calendar, Queue, Span, Time};
use std::collections::VecDeque;

/// One direction of a link, an engine, or the first stage of a pipeline. Jobs that arrive while it is busy wait in
/// order.
#[derive(Debug, Clone, Default)]
pub(crate) struct SerialServer {
    free_at: Time,
    occupied: Span,
    /// Idle times in the future, before the last reserved job: [begin, end].
    idle_gaps: VecDeque<[Time; 2]>,
}

impl SerialServer {
    /// Adds a job that occupies the server for `span`. Returns when the job is done.
    pub(crate) fn occupy(&mut self, now: Time, span: Span) -> Time {
        self.free_at = self.free_at.max(now) + span;
        self.occupied += span;
        self.free_at
    }

    /// Adds a job that can't start before `at`, which must not be earlier than the previous job's `at`.
    pub(crate) fn occupy_from(&mut self, now: Time, at: Time, span: Span) -> Time {
        while self.idle_gaps.pop_front_if(|gap| gap[1] <= now).is_some() {}
        if at > self.free_at && at > now {
            self.idle_gaps.push_back([self.free_at.max(now), at]);
        }
        self.occupy(at, span)
    }

    /// Drops all jobs that are not done. The server is idle from now on.
    pub(crate) fn stop(&mut self, now: Time) {
        self.occupied = self.busy(now);
        self.free_at = self.free_at.min(now);
        self.idle_gaps.clear();
    }

    /// Busy time up to now, without the jobs that wait.
    pub(crate) fn busy(&self, now: Time) -> Span {
        let from_now = |[begin, end]: &[Time; 2]| end.since((*begin).max(now)).unwrap_or_default();
        let idle = self.idle_gaps.iter().map(from_now).fold(Span::ZERO, |sum, gap| sum + gap);
        let waiting = self.free_at.since(now).unwrap_or(Span::ZERO);
        Span::from_ps((self.occupied.as_ps() + idle.as_ps()).saturating_sub(waiting.as_ps()))
    }
}

/// Schedules an event at a time that is never in the past, because it was computed from the current one.
pub(crate) fn schedule_at<E: Copy>(calendar: &mut Calendar<E, impl Queue<E>>, at: Time, event: E) {
    let delay = at.since(calendar.now()).unwrap_or_default();
    calendar.schedule_in(delay, event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_work_does_not_count_as_busy() {
        let mut serial = SerialServer::default();
        let at = Time::from_ps;
        assert_eq!(serial.occupy(at(10), Span::from_ps(5)), at(15));
        assert_eq!(serial.occupy(at(11), Span::from_ps(20)), at(35));
        assert_eq!([10, 12, 20, 35, 99].map(|now| serial.busy(at(now)).as_ps()), [0, 2, 10, 25, 25]);
        assert_eq!(serial.occupy(at(100), Span::from_ps(1)), at(101));
        assert_eq!(serial.busy(at(101)).as_ps(), 26);
    }

    #[test]
    fn unfinished_work_does_not_count_as_busy() {
        let mut serial = SerialServer::default();
        let at = Time::from_ps;
        serial.occupy(at(10), Span::from_ps(100));
        serial.stop(at(30));
        assert_eq!(serial.busy(at(50)).as_ps(), 20);
        assert_eq!(serial.occupy(at(50), Span::from_ps(5)), at(55));
        assert_eq!(serial.busy(at(60)).as_ps(), 25);
    }

    #[test]
    fn a_later_occupation_leaves_the_server_idle_until_then() {
        let mut serial = SerialServer::default();
        let at = Time::from_ps;
        let mut occupy =
            |now, from| serial.occupy_from(at(now), at(from), Span::from_ps(10)).since(Time::ZERO);
        let ends = [occupy(0, 100), occupy(0, 105), occupy(5, 300), occupy(120, 130)];
        assert_eq!(ends.map(|end| end.unwrap().as_ps()), [110, 120, 310, 320]);
        let busy = [0, 99, 105, 120, 200, 300, 315, 400].map(|now| serial.busy(at(now)).as_ps());
        assert_eq!(busy, [0, 0, 5, 20, 20, 20, 35, 40]);
    }
}
