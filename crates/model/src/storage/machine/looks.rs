//! A thread that looks for completions and finds none: it goes on without an event for each look.

use super::{Event, Machine};
use crate::host::Stage;
use crate::storage::task::Task;
use des::{Calendar, Queue, Span, Time};

/// Looks of a CPU that has nothing else to do, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks {
    thread: u32,
    /// When the first began.
    since: Time,
    each: Span,
}

impl Looks {
    /// Those that have begun by now.
    fn begun(&self, now: Time) -> u64 {
        self.past_ps(now) / self.each.as_ps() + 1
    }

    /// Those until the next that begins, now or later, and how long that is from now.
    fn until_next(&self, now: Time) -> (u64, Span) {
        let (past, each) = (self.past_ps(now), self.each.as_ps());
        let looks = past.div_ceil(each).max(1);
        (looks, Span::from_ps(looks.saturating_mul(each) - past))
    }

    fn past_ps(&self, now: Time) -> u64 {
        now.since(self.since).unwrap_or_default().as_ps()
    }
}

impl Machine<'_> {
    /// A thread looks until there is something: nothing happens to its CPU till then.
    pub(super) fn look_on(&mut self, now: Time, cpu: u32, thread: u32) {
        let look = self.setup.cpus.time_of(self.setup.library.poll);
        let each = self.processors.spin(now, cpu, look, Stage::Stack).max(Span::from_ps(1));
        self.looks[cpu as usize] = Some(Looks { thread, since: now, each });
    }

    /// There is something, for the thread that looks or for its CPU: when the look is over that goes on, it is seen.
    pub(super) fn look_up(&mut self, cpu: u32, calendar: &mut Calendar<Event, impl Queue<Event>>) {
        let Some(looks) = self.looks[cpu as usize].take() else { return };
        let (count, left) = looks.until_next(calendar.now());
        self.instructions[0] += count as f64 * self.setup.library.poll;
        let task = Task::Look { thread: looks.thread };
        // The CPU is busy, with looking.
        let _ = self.processors.push(cpu, task, task.level());
        calendar.schedule_in(left, Event::Step { cpu });
    }

    /// Instructions of looks that go on.
    pub(super) fn looks_instructions(&self, now: Time) -> f64 {
        let begun: u64 = self.looks.iter().flatten().map(|looks| looks.begun(now)).sum();
        begun as f64 * self.setup.library.poll
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_seen_by_the_next_look() {
        let looks = Looks { thread: 0, since: Time::from_ps(100), each: Span::from_ps(10) };
        let seen = [100, 101, 109, 110, 111, 200].map(|now| {
            let (count, left) = looks.until_next(Time::from_ps(now));
            (count, left.as_ps(), looks.begun(Time::from_ps(now)))
        });
        assert_eq!(seen, [(1, 10, 1), (1, 9, 1), (1, 1, 1), (1, 0, 2), (2, 9, 2), (10, 0, 11)]);
    }
}
